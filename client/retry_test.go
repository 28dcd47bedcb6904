package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
)

// cutOnce reads the whole first filter call, has the server remember it, and cuts the
// connection instead of answering.
func cutOnce(s *clienttest.Server) {
	var cut atomic.Bool
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || cut.Swap(true) {
			return false
		}
		s.Handle(discard{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	})
}

// discard is an answer that nobody receives.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func TestLostAnswer(t *testing.T) {
	for _, test := range []struct {
		name  string
		doubt client.Doubt
		fails bool
		want  []string
		calls int
	}{
		{"is an error", client.DoubtError, true, nil, 1},
		{"leaves items seen", client.DoubtSeen, false, []string{}, 2},
		{"leaves items new", client.DoubtNew, false, []string{"a", "old", "b"}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := clienttest.NewServer(t)
			c := newClient(t, s.URL, client.WithInDoubt(test.doubt))
			if _, err := c.Filter(t.Context(), "uri", []string{"old"}); err != nil {
				t.Fatal(err)
			}
			cutOnce(s)
			got, err := c.Filter(t.Context(), "uri", []string{"a", "old", "b", "a"})
			if (err != nil) != test.fails || test.fails && !client.InDoubt(err) || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v (in doubt: %t)", got, err, client.InDoubt(err))
			}
			if n := len(s.Requests()) - 1; n != test.calls {
				t.Errorf("%d calls, want %d", n, test.calls)
			}
			if n, _ := s.Items("uri", "a"); n != 3 {
				t.Errorf("%d items remembered, want 3", n)
			}
		})
	}
}

func TestLostAnswerOfReserve(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	if _, _, err := c.CreateFilter(t.Context(), "jobs", client.FilterSpec{Kind: "exact"}); err != nil {
		t.Fatal(err)
	}
	cutOnce(s)
	mine, err := c.Reserve(t.Context(), "jobs", []string{"a", "b", "a"}, time.Hour)
	if err != nil || !slices.Equal(mine.URIList, []string{"a", "b"}) || mine.Reserved != 0 {
		t.Fatalf("%+v, %v", mine, err)
	}
	if got, err := c.Commit(t.Context(), "jobs", mine.Reservation, mine.URIList); err != nil || got.Done != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	none := newClient(t, s.URL, client.WithPatience(0))
	cutOnce(s)
	if got, err := none.Reserve(t.Context(), "jobs", []string{"c"}, time.Hour); !client.InDoubt(err) {
		t.Errorf("without patience: %+v, %v", got, err)
	}
}

func TestLostAnswerOfJSON(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL, client.WithInDoubt(client.DoubtNew))
	cutOnce(s)
	got, err := client.FilterJSON(t.Context(), c, "uri", []any{1, "1", 1, map[string]any{"b": 2, "a": 1}})
	if err != nil || len(got) != 3 || got[0] != 1 || got[1] != "1" {
		t.Errorf("got %v, %v; want each value once", got, err)
	}
}

// A call that remembers nothing is repeated, whatever the setting says.
func TestLostAnswerOfCheck(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	cutOnce(s)
	got, err := c.Check(t.Context(), "uri", []string{"a"})
	if err != nil || !slices.Equal(got, []bool{true}) || len(s.Requests()) != 2 {
		t.Errorf("got %v, %v after %q", got, err, s.Requests())
	}
}

// lostOnce has the answer of the first call lost, and the others answered. It returns how many there were.
func lostOnce(s *clienttest.Server, answer func(w http.ResponseWriter)) *atomic.Int32 {
	var calls atomic.Int32
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		answer(w)
		return true
	})
	return &calls
}

// The doubt of one attempt is not forgotten when the last one is certain.
func TestDoubtIsKept(t *testing.T) {
	s := clienttest.NewServer(t)
	calls := lostOnce(s, func(w http.ResponseWriter) {
		clienttest.Problem(w, http.StatusForbidden, "forbidden", "no", nil)
	})
	c := newClient(t, s.URL, client.WithInDoubt(client.DoubtSeen))
	reservation := strings.Repeat("5", 32)
	for what, change := range map[string]func() error{
		"filter": func() error { _, err := c.Filter(t.Context(), "uri", []string{"a"}); return err },
		"forget": func() error { _, err := c.Forget(t.Context(), "uri", []string{"a"}); return err },
		"near": func() error {
			_, err := c.Near(t.Context(), "texts", []client.Document{{ID: "1", Text: "a text"}})
			return err
		},
		"reserve": func() error {
			_, err := c.Reserve(t.Context(), "uri", []string{"a"}, time.Minute)
			return err
		},
		"commit":  func() error { _, err := c.Commit(t.Context(), "uri", reservation, nil); return err },
		"release": func() error { _, err := c.Release(t.Context(), "uri", reservation, nil); return err },
		"create":  func() error { _, _, err := c.CreateFilter(t.Context(), "new", client.FilterSpec{}); return err },
	} {
		calls.Store(0)
		err := change()
		var e *client.Error
		if !client.InDoubt(err) || !errors.As(err, &e) || e.ErrorCode != "forbidden" {
			t.Errorf("%s: got %v, in doubt %t", what, err, client.InDoubt(err))
		}
	}
}

// A call that remembers nothing leaves no doubt, however it ends.
func TestLookingLeavesNoDoubt(t *testing.T) {
	for _, answer := range []func(http.ResponseWriter){
		func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) {
			clienttest.Problem(w, http.StatusInternalServerError, "internal", "", nil)
		},
	} {
		s := clienttest.NewServer(t)
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			io.Copy(io.Discard, r.Body)
			answer(w)
			return true
		})
		c := newClient(t, s.URL, client.WithPatience(0))
		_, check := c.Check(t.Context(), "uri", []string{"a"})
		_, get := c.GetFilter(t.Context(), "uri")
		documents := []client.Document{{ID: "1", Text: "a text"}}
		_, look := c.Near(t.Context(), "texts", documents, client.NearLook())
		_, lines := c.CheckLines(t.Context(), "uri", strings.NewReader("a\n"), io.Discard)
		_, values := c.CheckNDJSON(t.Context(), "uri", strings.NewReader("1\n"), io.Discard)
		_, ping := c.Ping(t.Context())
		for _, err := range []error{check, get, look, lines, values, ping, c.Ready(t.Context())} {
			if err == nil || client.InDoubt(err) {
				t.Errorf("got %v, in doubt %t", err, client.InDoubt(err))
			}
		}
		_, _, put := c.CreateFilter(t.Context(), "new", client.FilterSpec{})
		_, forget := c.Forget(t.Context(), "uri", []string{"a"})
		_, near := c.Near(t.Context(), "texts", documents)
		_, clear := c.ClearFilter(t.Context(), "uri")
		_, writeback := c.Writeback(t.Context(), "uri")
		_, restore := c.Restore(t.Context(), "uri", "")
		reservation := strings.Repeat("5", 32)
		_, commit := c.Commit(t.Context(), "uri", reservation, nil)
		_, release := c.Release(t.Context(), "uri", reservation, []string{"a"})
		for i, err := range []error{put, forget, near, clear, writeback, restore, commit, release, c.DropFilter(t.Context(), "uri")} {
			if !client.InDoubt(err) {
				t.Errorf("change %d: got %v, which is no doubt", i, err)
			}
		}
	}
}

// An answer that no daemon gives, such as a proxy's page, does not say what was done.
func TestOddAnswersLeaveDoubt(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "<html>Welcome</html>")
		return true
	})
	c := newClient(t, s.URL)
	_, filter := c.Filter(t.Context(), "uri", []string{"a"})
	_, values := client.FilterJSON(t.Context(), c, "uri", []int{1})
	_, forget := c.Forget(t.Context(), "uri", []string{"a"})
	_, reserve := c.Reserve(t.Context(), "uri", []string{"a"}, time.Minute)
	_, commit := c.Commit(t.Context(), "uri", strings.Repeat("5", 32), nil)
	_, clear := c.ClearFilter(t.Context(), "uri")
	for i, err := range []error{filter, values, forget, reserve, commit, clear} {
		if !client.InDoubt(err) {
			t.Errorf("change %d: got %v, which is no doubt", i, err)
		}
	}
	_, check := c.Check(t.Context(), "uri", []string{"a"})
	_, get := c.GetFilter(t.Context(), "uri")
	for _, err := range []error{check, get} {
		if err == nil || client.InDoubt(err) {
			t.Errorf("got %v, in doubt %t", err, client.InDoubt(err))
		}
	}
}

func TestErrorsInDoubt(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		doubt  bool
	}{
		{400, "empty_item", false}, {401, "unauthorized", false}, {422, "expire_invalid", false},
		{503, "not_ready", false}, {503, "store_unavailable", false}, {507, "filter_full", false},
		{500, "internal", true}, {503, "outcome_unknown", true}, {503, "store_failed", true}, {502, "", true},
	} {
		s := clienttest.NewServer(t)
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			clienttest.Problem(w, test.status, test.code, "", nil)
			return true
		})
		_, err := newClient(t, s.URL, client.WithPatience(0)).Filter(t.Context(), "uri", []string{"a"})
		var e *client.Error
		if client.InDoubt(err) != test.doubt || !errors.As(err, &e) || e.ErrorCode != test.code || len(s.Requests()) != 1 {
			t.Errorf("%d %s: got %v, in doubt %t, %d calls", test.status, test.code, err, client.InDoubt(err), len(s.Requests()))
		}
	}
}

func TestNotReadyIsWaitedFor(t *testing.T) {
	s := clienttest.NewServer(t)
	var calls atomic.Int32
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if calls.Add(1) > 3 {
			return false
		}
		clienttest.Problem(w, http.StatusServiceUnavailable, "not_ready", "", nil)
		return true
	})
	got, err := newClient(t, s.URL).Filter(t.Context(), "uri", []string{"a"})
	if err != nil || !slices.Equal(got, []string{"a"}) || calls.Load() != 4 {
		t.Errorf("got %q, %v after %d calls", got, err, calls.Load())
	}
	calls.Store(0)
	if err := newClient(t, s.URL).Ready(t.Context()); err == nil || calls.Load() != 1 {
		t.Errorf("ready: got %v after %d calls, want an answer at once", err, calls.Load())
	}
}

// A daemon that is restarted without a systemd socket refuses connections in the meantime.
func TestRefusedIsWaitedFor(t *testing.T) {
	s := clienttest.NewServer(t)
	var dialer net.Dialer
	refused := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if refused < 3 {
			conn, err := dialer.DialContext(ctx, network, "127.0.0.1:1") // where nobody listens
			if refused++; err == nil {
				conn.Close()
				t.Error("somebody listens at port 1")
			}
			return nil, err
		}
		return dialer.DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	if _, err := newClient(t, s.URL, client.WithHTTPClient(&http.Client{Transport: transport})).Filter(t.Context(), "uri", []string{"a"}); err != nil {
		t.Error(err)
	}
	if refused != 3 {
		t.Errorf("refused %d times, want 3", refused)
	}
}

func TestPatienceEndsWithTheContext(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	dials := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == 3 {
			cancel()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	patient := newClient(t, s.URL, client.WithPatience(time.Hour), client.WithHTTPClient(&http.Client{Transport: transport}))
	_, err := patient.Filter(ctx, "uri", []string{"a"})
	if err == nil || client.InDoubt(err) {
		t.Errorf("got %v, in doubt %t", err, client.InDoubt(err))
	}
}

func TestFailover(t *testing.T) {
	a, b := clienttest.NewServer(t), clienttest.NewServer(t)
	c := newClient(t, a.URL+", "+b.URL, client.WithPatience(0))
	filter := func(item string) {
		t.Helper()
		if got, err := c.Filter(t.Context(), "uri", []string{item}); err != nil || len(got) != 1 {
			t.Errorf("%s: got %q, %v", item, got, err)
		}
	}
	filter("1")
	filter("2")
	a.Stop()
	filter("3")
	filter("4")
	if na, nb := len(a.Requests()), len(b.Requests()); na != 2 || nb != 2 || c.URL() != b.URL {
		t.Errorf("%d and %d requests, now at %s", na, nb, c.URL())
	}
	total, fresh, err := c.FilterLines(t.Context(), "uri", strings.NewReader("3\n5\n"), io.Discard)
	if err != nil || total != 2 || fresh != 1 {
		t.Errorf("stream: %d of %d, %v", fresh, total, err)
	}
	b.Stop()
	if _, err := c.Filter(t.Context(), "uri", []string{"6"}); err == nil || client.InDoubt(err) {
		t.Errorf("both are down: got %v", err)
	}
}

// A stream goes to the next server as long as nothing of its source was read, and fails after that.
func TestStreamFailover(t *testing.T) {
	a, b := clienttest.NewServer(t), clienttest.NewServer(t)
	c := newClient(t, a.URL+","+b.URL, client.WithPatience(0))
	a.Stop()
	if total, fresh, err := c.FilterLines(t.Context(), "uri", strings.NewReader("1\n2\n"), io.Discard); err != nil || total != 2 || fresh != 2 {
		t.Errorf("%d of %d, %v", fresh, total, err)
	}
	b.Intercept(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	before := len(b.Requests())
	if _, _, err := c.FilterLines(t.Context(), "uri", io.LimitReader(endless{}, 1<<20), io.Discard); err == nil || len(b.Requests()) != before+1 {
		t.Errorf("got %v after %d calls", err, len(b.Requests())-before)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "0123456789\n"[i%11]
	}
	return len(p), nil
}

// A request that was not sent completely cannot have been carried out: the daemon decodes
// the whole request before it remembers anything.
func TestHalfARequestIsNoDoubt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.ReadFull(conn, make([]byte, 1000))
			conn.Close() // with bytes unread: a reset
		}
	}()
	items := make([]string, 1000) // 20 MB, more than the sockets hold
	for i := range items {
		items[i] = fmt.Sprint(i, strings.Repeat("x", 20_000))
	}
	s := clienttest.NewServer(t)
	c := newClient(t, l.Addr().String()+","+s.URL, client.WithPatience(0), client.WithTimeout(10*time.Minute))
	if got, err := c.Filter(t.Context(), "uri", items); err != nil || len(got) != len(items) {
		t.Errorf("%d new, %v", len(got), err)
	}
}

func TestExpire(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	spec := client.FilterSpec{Kind: "timing"}
	if _, _, err := c.CreateFilter(t.Context(), "recent", spec); err != nil {
		t.Fatal(err)
	}
	filter := func(d time.Duration, want ...string) {
		t.Helper()
		got, err := c.Filter(t.Context(), "recent", []string{"a", "b"}, client.Expire(d))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	filter(90*time.Minute+500*time.Millisecond, "a", "b")
	filter(time.Hour)
	s.Advance(time.Hour)
	filter(time.Hour)
	s.Advance(time.Hour)
	filter(time.Hour, "a", "b")
	if _, fresh, err := c.FilterNDJSON(t.Context(), "recent", strings.NewReader("1\n1\n"), io.Discard, client.Expire(time.Minute)); err != nil || fresh != 1 {
		t.Errorf("ndjson: %d, %v", fresh, err)
	}
	if got, err := client.FilterJSON(t.Context(), c, "recent", []int{1, 2}, client.Expire(time.Minute)); err != nil || !slices.Equal(got, []int{2}) {
		t.Errorf("json: %v, %v", got, err)
	}
}

// A daemon whose store failed in the middle of the batch knows best which items it reported
// to nobody: the call is repeated there, not at another daemon that might call them seen.
func TestUnknownOutcomeStaysWithTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		patience time.Duration
		doubt    client.Doubt
		first    int
		second   int
		fails    bool
	}{
		"seen":         {time.Minute, client.DoubtSeen, 2, 0, false},
		"new":          {time.Minute, client.DoubtNew, 2, 0, false},
		"error":        {time.Minute, client.DoubtError, 1, 0, true},
		"no patience":  {0, client.DoubtSeen, 1, 1, false},
		"only to look": {time.Minute, client.DoubtError, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := clienttest.NewServer(t), clienttest.NewServer(t)
			var broke atomic.Bool
			one.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if broke.Swap(true) {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				clienttest.Problem(w, http.StatusServiceUnavailable, "outcome_unknown", "", nil)
				return true
			})
			c := newClient(t, one.URL+","+two.URL, client.WithInDoubt(test.doubt), client.WithPatience(test.patience))
			if test.first == 0 {
				if _, err := c.Check(t.Context(), "uri", []string{"a"}); err != nil || client.InDoubt(err) {
					t.Errorf("check: %v", err)
				}
				return
			}
			got, err := c.Filter(t.Context(), "uri", []string{"a"})
			if (err != nil) != test.fails || test.fails && !client.InDoubt(err) || !test.fails && !slices.Equal(got, []string{"a"}) {
				t.Errorf("got %q, %v", got, err)
			}
			if len(one.Requests()) != test.first || len(two.Requests()) != test.second {
				t.Errorf("%d calls of the first server, %d of the second; want %d, %d", len(one.Requests()), len(two.Requests()), test.first, test.second)
			}
		})
	}
}

// An error in the middle of a stream says nothing of the part that is done, whatever its code promises of the rest.
func TestErrorInTheMiddleIsNotRepeatable(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "Urifilter-Error")
		io.WriteString(w, "a\n")
		w.Header().Set("Urifilter-Error", `{"status":503,"error_code":"store_unavailable"}`)
		return true
	})
	c := newClient(t, s.URL)
	_, fresh, err := c.FilterLines(t.Context(), "uri", strings.NewReader("a\nb\n"), io.Discard)
	again, _ := client.Repeatable(err)
	if fresh != 1 || !client.InDoubt(err) || again {
		t.Errorf("%d lines, %v, in doubt %t, repeatable %t", fresh, err, client.InDoubt(err), again)
	}
	_, err = c.CheckLines(t.Context(), "uri", strings.NewReader("a\nb\n"), io.Discard)
	if again, _ := client.Repeatable(err); err == nil || client.InDoubt(err) || !again {
		t.Errorf("check: %v, in doubt %t, repeatable %t", err, client.InDoubt(err), again)
	}
}

// Nor is a call whose last attempt is certain, if an attempt before was not.
func TestDoubtIsNotRepeatable(t *testing.T) {
	s := clienttest.NewServer(t)
	calls := lostOnce(s, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		clienttest.Problem(w, http.StatusServiceUnavailable, "not_ready", "", nil)
	})
	_, err := newClient(t, s.URL, client.WithInDoubt(client.DoubtSeen)).Filter(t.Context(), "uri", []string{"a"})
	if again, _ := client.Repeatable(err); !client.InDoubt(err) || again || calls.Load() != 2 {
		t.Errorf("%v after %d calls, repeatable %t", err, calls.Load(), again)
	}
}

// However long an answer asks to wait, it is not waited for longer than patience allows.
func TestLongRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"2": 2 * time.Second, "0": 0, "-1": 0, "soon": 0,
		"9223372036": 365 * 24 * time.Hour, "18446744073": 365 * 24 * time.Hour, "Fri, 31 Dec 9999 23:59:59 GMT": 365 * 24 * time.Hour,
	} {
		s := clienttest.NewServer(t)
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", value)
			clienttest.Problem(w, http.StatusTooManyRequests, "", "", nil)
			return true
		})
		_, err := newClient(t, s.URL).Filter(t.Context(), "uri", []string{"a"})
		var e *client.Error
		if !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("%s: %v, retry after %v, want %v", value, err, e.RetryAfter, want)
		}
	}
}
