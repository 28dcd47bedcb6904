package robots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCache(t *testing.T) {
	now := time.Unix(1, 0)
	answer, failed, asked := Answer{}, error(nil), 0
	fetch := func(context.Context, string) (Answer, error) { asked++; return answer, failed }
	c := NewCache("ours", 1<<20, func() time.Time { return now })
	for i, test := range []struct {
		answer Answer
		err    error
		want   Verdict
		why    string // why it is unreachable
		lasts  time.Duration
	}{
		{Answer{200, []byte("user-agent: *\ndisallow: /b\ncrawl-delay: 2")}, nil, Verdict{Allowed: true, Delay: 2 * time.Second}, "", Fresh},
		{Answer{204, nil}, nil, Verdict{Allowed: true}, "", Fresh},
		{Answer{200, []byte("user-agent: *\ndisallow: /")}, nil, Verdict{}, "", Fresh},
		{Answer{404, []byte("user-agent: *\ndisallow: /")}, nil, Verdict{Allowed: true}, "", Fresh},
		{Answer{403, nil}, nil, Verdict{Allowed: true}, "", Fresh},
		{Answer{429, nil}, nil, Verdict{Allowed: true}, "", Fresh},
		{Answer{500, nil}, nil, Verdict{}, "it was answered with status 500", Unreachable},
		{Answer{503, nil}, nil, Verdict{}, "it was answered with status 503", Unreachable},
		{Answer{304, nil}, nil, Verdict{}, "it was answered with status 304", Unreachable},
		{Answer{}, errors.New("no connection"), Verdict{}, "no connection", Unreachable},
	} {
		answer, failed, asked = test.answer, test.err, 0
		origin := fmt.Sprintf("http://%d.example", i)
		for i := range 3 {
			got, err := c.Ask(t.Context(), origin, "/a", fetch)
			test.want.Fetched = i == 0
			why := ""
			if got.Unreachable != nil {
				why, got.Unreachable = got.Unreachable.Error(), nil
			}
			if err != nil || got != test.want || why != test.why {
				t.Errorf("%d and %v: got %+v, %q and %v, want %+v and %q", test.answer.Status, test.err, got, why, err, test.want, test.why)
			}
		}
		now = now.Add(test.lasts - 1)
		_, _ = c.Ask(t.Context(), origin, "/a", fetch)
		if asked != 1 {
			t.Errorf("%d: asked %d times", test.answer.Status, asked)
		}
		now = now.Add(1)
		_, _ = c.Ask(t.Context(), origin, "/a", fetch)
		if asked != 2 {
			t.Errorf("%d: asked %d times when it was over", test.answer.Status, asked)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	const limit = 1 << 20
	file := Answer{200, []byte("user-agent: *\n" + strings.Repeat("disallow: /abcdefgh\n", 500))}
	asked := map[string]int{}
	fetch := func(_ context.Context, origin string) (Answer, error) { asked[origin]++; return file, nil }
	c := NewCache("ours", limit, nil)
	for i := range 1000 {
		for _, origin := range []string{"http://often", fmt.Sprintf("http://%d", i)} {
			if _, err := c.Ask(t.Context(), origin, "/", fetch); err != nil {
				t.Fatal(err)
			}
		}
		if bytes, origins := c.Held(); bytes > limit || origins > limit/256 {
			t.Fatalf("%d bytes of %d origins", bytes, origins)
		}
	}
	if bytes, origins := c.Held(); bytes < limit/2 || origins < 10 || asked["http://often"] != 1 {
		t.Errorf("%d bytes of %d origins; what is used often was fetched %d times", bytes, origins, asked["http://often"])
	}
}

// Concurrent callers wait for one fetch; if the caller that fetches gives up, another one fetches.
func TestCacheFetchesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := NewCache("ours", 1<<20, nil)
		fetch := func(ctx context.Context, _ string) (Answer, error) {
			asked++ // one at a time
			select {
			case <-time.After(time.Minute):
				return Answer{Status: 404}, nil
			case <-ctx.Done():
				return Answer{}, ctx.Err()
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Ask(ctx, "http://a", "/", fetch); !errors.Is(err, context.Canceled) {
				t.Errorf("who was canceled: %v", err)
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if v, err := c.Ask(t.Context(), "http://a", "/", fetch); err != nil || !v.Allowed || !v.Waited {
					t.Errorf("got %+v and %v", v, err)
				}
			})
		}
		synctest.Wait()
		if asked != 1 {
			t.Errorf("%d fetches, want 1", asked)
		}
		cancel()
		all.Wait()
		if asked != 2 {
			t.Errorf("%d fetches, want 2", asked)
		}
		if v, err := c.Ask(t.Context(), "http://a", "/", fetch); err != nil || v != (Verdict{Allowed: true}) {
			t.Errorf("who comes afterwards: %+v and %v", v, err)
		}
	})
}

// A withheld fetch is the answer for all that waited for it, and for nobody after them.
func TestCacheWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, goOn, why := 0, make(chan struct{}), errors.New("not now")
		c := NewCache("ours", 1<<20, nil)
		fetch := func(context.Context, string) (Answer, error) {
			asked++
			if asked == 1 {
				<-goOn
				return Answer{}, fmt.Errorf("on its way: %w", &Withheld{why})
			}
			return Answer{Status: 404}, nil
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if v, err := c.Ask(t.Context(), "http://a", "/", fetch); !errors.Is(err, why) || v != (Verdict{}) {
					t.Errorf("got %+v and %v, want %v", v, err, why)
				}
			})
		}
		synctest.Wait()
		close(goOn)
		all.Wait()
		if bytes, origins := c.Held(); asked != 1 || bytes != 0 || origins != 0 {
			t.Errorf("%d fetches, %d bytes of %d origins", asked, bytes, origins)
		}
		if v, err := c.Ask(t.Context(), "http://a", "/", fetch); err != nil || !v.Allowed || asked != 2 {
			t.Errorf("afterwards: %+v, %v, %d fetches", v, err, asked)
		}
	})
}

// A fetch that panics holds up nobody who asks for the same origin.
func TestCacheAfterAPanic(t *testing.T) {
	c := NewCache("ours", 1<<20, nil)
	func() {
		defer func() { _ = recover() }() // as the worker does
		_, _ = c.Ask(t.Context(), "http://a.example", "/", func(context.Context, string) (Answer, error) { panic("a decoder") })
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := c.Ask(ctx, "http://a.example", "/", func(context.Context, string) (Answer, error) { return Answer{Status: 404}, nil })
	if err != nil || !got.Allowed {
		t.Errorf("%+v, %v", got, err)
	}
}
