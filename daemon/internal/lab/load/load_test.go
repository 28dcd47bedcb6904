package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pipes"
)

// The tests of this file run in bubbles of testing/synctest, whose clock goes on when all
// wait: a server that takes a millisecond takes exactly that.

// dialing is the Options.Dial of a listener.
func dialing(l *pipes.Listener) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return l.Dial(ctx, "", "") }
}

// answer says that so many items were sent, and half of them duplicates.
func answer(w http.ResponseWriter, items int) {
	fmt.Fprintf(w, `{"uri_list":[],"total":%d,"duplicates":%d}`, items, items/2)
}

const batch = 10

// against runs options against a handler, which is told which request it has, from 0; the
// first one is that before the run.
func against(t *testing.T, ctx context.Context, o Options, handle func(n int, w http.ResponseWriter)) *Result {
	t.Helper()
	p := pipes.Listen()
	var mu sync.Mutex
	n := -1
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		n++
		mine := n
		mu.Unlock()
		handle(mine, w)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(p)
	}()
	o.Dial, o.Host, o.Filter, o.Protocol, o.Sleep = dialing(p), "a", "uri", JSON, sleepUntil
	if o.Connections == 0 {
		o.Connections = 1
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	o.Batch, o.Duplicates = batch, 0.5
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	result, err := Run(ctx, o)
	_ = server.Shutdown(context.Background()) // which waits for handlers
	<-served
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// near tells whether two times in milliseconds are the same to the digits of a histogram.
func near(got, want float64) bool { return got > want*0.998 && got < want*1.002 }

// One answer in a thousand takes a second, in which a hundred batches are due.
func TestOpenLoopCountsTheWaitOfThoseThatCouldNotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, t.Context(), Options{Rate: 100 * batch, WarmUp: time.Second, Duration: 10 * time.Second}, func(n int, w http.ResponseWriter) {
			time.Sleep(time.Millisecond)
			if n == 500 {
				time.Sleep(999 * time.Millisecond)
			}
			answer(w, batch)
		})
		if r.Batches != 1000 || r.Unsent != 0 || len(r.Errors) != 0 || r.Loop != "open" {
			t.Fatalf("%+v", r)
		}
		// Calls that were due 10, 20, ... ms after it waited 991, 982, ... ms.
		if !near(r.Latency.P50, 1) || r.Latency.P99 < 900 || !near(r.Latency.Max, 1000) {
			t.Errorf("from when they were due: %+v", r.Latency)
		}
		if !near(r.Sent.P99, 1) || !near(r.Sent.Max, 1000) {
			t.Errorf("from when they were sent: %+v", r.Sent)
		}
		if r.Delay.Max > 0.001 { // the least that a histogram tells
			t.Errorf("the generator was late: %+v", r.Delay)
		}
		if !near(r.ItemsPerSec, 1000) || !near(r.Seconds, 10) {
			t.Errorf("%v items/s in %v s", r.ItemsPerSec, r.Seconds)
		}
	})
}

func TestClosedLoopIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, t.Context(), Options{WarmUp: time.Second, Duration: 10 * time.Second}, func(n int, w http.ResponseWriter) {
			time.Sleep(time.Millisecond)
			switch {
			case n < 50: // of the warm-up
				time.Sleep(9 * time.Millisecond)
			case n == 5000:
				time.Sleep(999 * time.Millisecond)
			}
			answer(w, batch)
		})
		if r.Batches != 9001 || r.Loop != "closed" || r.Sent != nil || r.Unsent != 0 {
			t.Fatalf("%+v", r)
		}
		if !near(r.Latency.P99, 1) || !near(r.Latency.P999, 1) || !near(r.Latency.Max, 1000) {
			t.Errorf("as measured: %+v", r.Latency)
		}
		// A tenth of what there should have been waited, evenly, up to a second.
		if r.Corrected.P99 < 880 || r.Corrected.P99 > 920 || !near(r.Corrected.P50, 1) {
			t.Errorf("corrected: %+v", r.Corrected)
		}
	})
}

// A rate that is ten times what the server takes shows as waits that grow, and as what was
// never sent.
func TestOpenLoopPastTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, t.Context(), Options{Rate: 100 * batch, Duration: 10 * time.Second}, func(_ int, w http.ResponseWriter) {
			time.Sleep(100 * time.Millisecond)
			answer(w, batch)
		})
		if r.Batches != 100 || r.Unsent != 900 || !near(r.ItemsPerSec, 100) {
			t.Errorf("%d batches, %d not sent, %v items/s", r.Batches, r.Unsent, r.ItemsPerSec)
		}
		if r.Latency.P50 < 4400 || !near(r.Latency.Max, 9010) || !near(r.Sent.Max, 100) {
			t.Errorf("from when they were due %+v, from when they were sent %+v", r.Latency, r.Sent)
		}
		if !strings.Contains(strings.Join(r.Warnings, "\n"), "900 batches that were due were not sent") {
			t.Errorf("warnings %q", r.Warnings)
		}
	})
}

// A generator that is late says so.
func TestDelayOfTheGeneratorIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Options{Rate: 100 * batch, Duration: time.Second}
		p.Show = func(Progress) {}
		r := againstLate(t, p, 4*time.Millisecond)
		if !near(r.Delay.P50, 4) || !near(r.Latency.P50, 5) || !near(r.Sent.P50, 1) {
			t.Errorf("delay %+v, latency %+v, sent %+v", r.Delay, r.Latency, r.Sent)
		}
		if !strings.Contains(strings.Join(r.Warnings, "\n"), "the generator itself was late") {
			t.Errorf("warnings %q", r.Warnings)
		}
	})
}

func againstLate(t *testing.T, o Options, late time.Duration) *Result {
	t.Helper()
	p := pipes.Listen()
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(time.Millisecond)
		answer(w, batch)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(p)
	}()
	o.Dial, o.Host, o.Filter, o.Protocol, o.Connections, o.Batch, o.Timeout = dialing(p), "a", "uri", JSON, 1, batch, time.Minute
	o.Sleep = func(ctx context.Context, until time.Time) { sleepUntil(ctx, until.Add(late)) }
	r, err := Run(t.Context(), o)
	_ = server.Shutdown(context.Background()) // which waits for handlers
	<-served
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatTheServerFindsIsHeldAgainstWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, t.Context(), Options{Duration: time.Second}, func(_ int, w http.ResponseWriter) {
			time.Sleep(time.Millisecond)
			fmt.Fprintf(w, `{"uri_list":[],"total":%d,"duplicates":%d}`, batch, batch*6/10)
		})
		if r.DuplicateShare != 0.6 || *r.SentDuplicateShare != 0.5 || !strings.Contains(strings.Join(r.Warnings, "\n"), "60.00 % of the items were duplicates for the server, and 50.00 % were sent") {
			t.Errorf("%v of %v: %q", r.DuplicateShare, *r.SentDuplicateShare, r.Warnings)
		}
	})
}

func TestErrorsAreCountedByTheirCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, t.Context(), Options{Rate: 100 * batch, Duration: time.Second, Timeout: 5 * time.Millisecond}, func(n int, w http.ResponseWriter) {
			switch n % 10 {
			case 1, 6:
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"error_code":"not_ready","detail":"soon"}`)
			case 2:
				w.WriteHeader(http.StatusBadGateway)
				fmt.Fprint(w, "<html>")
			case 3:
				panic(http.ErrAbortHandler)
			case 4:
				time.Sleep(7 * time.Millisecond)
			case 5:
				fmt.Fprint(w, "[]")
			case 7:
				answer(w, batch+1)
			default:
				answer(w, batch)
			}
		})
		got := map[string]int64{}
		for _, e := range r.Errors {
			got[e.Code] = e.Batches
		}
		want := map[string]int64{"not_ready": 20, "http_502": 10, "connection_lost": 10, "timeout": 10, "odd_answer": 20}
		if fmt.Sprint(got) != fmt.Sprint(want) || r.Batches != 30 {
			t.Errorf("got %v and %d batches, want %v and 30", got, r.Batches, want)
		}
		if r.Errors[0].First != "not_ready: soon" && r.Errors[1].First != "not_ready: soon" {
			t.Errorf("%+v", r.Errors)
		}
	})
}

// What was sent when a run is stopped is waited for, a while.
func TestStoppedRunTakesInWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begun := time.Now()
		both := make(chan struct{}) // have sent something
		r := against(t, ctx, Options{Connections: 2, Duration: time.Hour}, func(n int, w http.ResponseWriter) {
			switch n {
			case 20:
				<-both
				stop()
				time.Sleep(2 * time.Second)
			case 21:
				close(both)
				time.Sleep(drainTime + time.Second) // too long
			default:
				time.Sleep(time.Millisecond)
			}
			answer(w, batch)
		})
		if !r.Interrupted || r.Batches != 19 || len(r.Errors) != 1 || r.Errors[0].Code != "timeout" || r.Errors[0].Batches != 1 {
			t.Errorf("interrupted %v, %d batches, %+v", r.Interrupted, r.Batches, r.Errors)
		}
		if spent := time.Since(begun); spent > drainTime+2*time.Second {
			t.Errorf("the end took %s", spent)
		}
	})
}

func TestProgressIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []Progress
		against(t, t.Context(), Options{WarmUp: time.Second, Duration: 2 * time.Second, Show: func(p Progress) { shown = append(shown, p) }}, func(_ int, w http.ResponseWriter) {
			time.Sleep(time.Millisecond)
			answer(w, batch)
		})
		if len(shown) < 10 || !shown[0].WarmUp || shown[0].Elapsed != 0 || shown[len(shown)-1].WarmUp {
			t.Fatalf("%+v", shown)
		}
		if last := shown[len(shown)-1]; last.ItemsPerSec < 9000 || last.ItemsPerSec > 11000 || last.P50 < time.Millisecond || last.Elapsed > last.Of {
			t.Errorf("%+v", last)
		}
	})
}
