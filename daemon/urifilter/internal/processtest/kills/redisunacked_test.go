//go:build linux

package kills_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// brokenPart is two daemons on one Redis that has lost one of the 12 stripes of the filter uri,
// and items that fall into all stripes: when a batch of these fails, most of its items are
// remembered.
func brokenPart(t *testing.T) (ps []*processtest.Process, items []string) {
	t.Helper()
	server := redistest.Start(t)
	env := processtest.OnRedis(server.Addr)
	env[2] = `URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 15000000}]`
	ps = []*processtest.Process{processtest.Start(t, t.TempDir(), env), processtest.Start(t, t.TempDir(), env)}
	for i := range 300 {
		items = append(items, fmt.Sprintf("https://example.com/%d", i))
	}
	for key := range strings.Lines(server.CLI("--scan", "--pattern", "urifilter:{1-uri*:3}")) {
		server.CLI("del", strings.TrimSpace(key))
	}
	return ps, items
}

func clientOf(t *testing.T, doubt client.Doubt, patience time.Duration, ps []*processtest.Process, more ...client.Option) *client.Client {
	t.Helper()
	var addrs []string
	for _, p := range ps {
		addrs = append(addrs, "http://"+p.Addr)
	}
	c, err := client.New(strings.Join(addrs, ","), append(more, client.WithInDoubt(doubt), client.WithPatience(patience))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The answer to a batch that breaks off half-way is true whichever daemon the caller asks next:
// it says that nothing was remembered only if that is so.
func TestNothingWasRememberedIsTrueElsewhere(t *testing.T) {
	t.Parallel()
	for tries := 1; ; tries++ {
		ps, items := brokenPart(t)
		_, err := clientOf(t, client.DoubtError, 0, ps[:1]).Filter(context.Background(), "uri", items)
		if err == nil {
			t.Fatal("the batch does not break off: this tries nothing")
		}
		fresh, asked := clientOf(t, client.DoubtError, time.Minute, ps[1:]).Filter(context.Background(), "uri", items)
		if client.InDoubt(asked) && tries < 20 {
			continue // on a busy machine it breaks off at the other daemon too, and says nothing of the first
		}
		if asked != nil {
			t.Fatal(asked)
		}
		if lost := len(items) - len(fresh); lost > 0 && !client.InDoubt(err) {
			t.Errorf("%d of %d items are called seen by the other daemon; the caller was told: %v", lost, len(items), err)
		}
		return
	}
}

// doubts counts the requests of a client that got no answer, or one which says that the outcome is unknown.
type doubts struct{ n atomic.Int32 }

func (d *doubts) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		d.n.Add(1)
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode >= 500 && bytes.Contains(text, []byte(`"outcome_unknown"`)) {
		d.n.Add(1)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, err
}

// A client repeats a batch that broke off as its setting says: seen gives every item to one caller, and
// to none only if a repetition breaks off as well, as it may on a busy machine; new gives all of them to
// this caller.
func TestClientsRepeatABatchThatBrokeOff(t *testing.T) {
	t.Parallel()
	for name, doubt := range map[string]client.Doubt{"seen": client.DoubtSeen, "new": client.DoubtNew} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ps, items := brokenPart(t)
			wins, broken := map[string]int{}, &doubts{}
			fresh, err := clientOf(t, doubt, time.Minute, ps, client.WithHTTPClient(&http.Client{Transport: broken})).Filter(context.Background(), "uri", items)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("broke off %d times", broken.n.Load())
			if doubt == client.DoubtNew && len(fresh) != len(items) {
				t.Errorf("%d of %d items are new for the caller that was not answered", len(fresh), len(items))
			}
			for _, p := range []*processtest.Process{nil, ps[1], ps[0]} {
				if p != nil {
					if fresh, err = clientOf(t, doubt, time.Minute, []*processtest.Process{p}).Filter(context.Background(), "uri", items); err != nil {
						t.Fatal(err)
					}
				}
				for _, item := range fresh {
					wins[item]++
				}
			}
			for _, item := range items {
				if n := wins[item]; n > 1 && doubt == client.DoubtSeen || n == 0 && (doubt == client.DoubtNew || broken.n.Load() == 1) {
					t.Fatalf("%s was new %d times", item, n)
				}
			}
		})
	}
}
