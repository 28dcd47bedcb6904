package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	const window = 8 * time.Second
	for name, test := range map[string]struct {
		rate  func(second int) int64 // bytes that come in it
		until int                    // the second in which it is too slow; 0: never
	}{
		"steady":                     {func(int) int64 { return minBytesPerSecond }, 0},
		"steady, but too slow":       {func(int) int64 { return minBytesPerSecond - 1 }, 8},
		"nothing":                    {func(int) int64 { return 0 }, 8},
		"much at first, then little": {func(s int) int64 { return []int64{1 << 30, 1}[min(s, 1)] }, 9},
		"much in each window":        {func(s int) int64 { return []int64{8 * minBytesPerSecond, 0, 0, 0, 0, 0, 0, 0}[s%8] }, 0},
		"late": {func(s int) int64 {
			if s < 100 {
				return minBytesPerSecond
			}
			return 10
		}, 101},
	} {
		begin := time.Unix(1, 0)
		var p pace
		p.begin(window, begin)
		bytes, slow := int64(0), 0
		for s := 0; s < 1000 && slow == 0; s++ {
			bytes += test.rate(s)
			if !p.keeps(begin.Add(time.Duration(s+1)*time.Second), bytes) {
				slow = s + 1
			}
		}
		if slow != test.until {
			t.Errorf("%s: too slow after second %d, want %d", name, slow, test.until)
		}
	}
}

// Reads that come often do not push the mark away that is a window old.
func TestPaceOfManyReads(t *testing.T) {
	begin := time.Unix(1, 0)
	var p pace
	p.begin(time.Second, begin)
	bytes := int64(1 << 20)
	for i := range 100_000 {
		now := begin.Add(time.Duration(i) * 100 * time.Microsecond)
		if ok := p.keeps(now, bytes); !ok {
			if now.Sub(begin) > 2*time.Second {
				t.Errorf("too slow after %s, want it in the second second", now.Sub(begin))
			}
			return
		}
	}
	t.Error("nothing came for ten seconds, and the pace was kept")
}

// What came in time does not make up for what comes no more.
func TestDribblingAfterAQuickStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipedRig(t, func(o *Options) { o.Limits.BodyTimeout = time.Second })
		conn := r.dialAny()
		const size = 1 << 20
		fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat(" ", size/2))
		ended := make(chan struct{})
		dribbled := make(chan struct{})
		go func() {
			defer close(dribbled)
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
					if _, err := io.WriteString(conn, " "); err != nil {
						return
					}
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		close(ended)
		<-dribbled
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("got %d, want 408", resp.StatusCode)
		}
	})
}
