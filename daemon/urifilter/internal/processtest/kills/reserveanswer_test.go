package kills_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The answer to a reserve is cut off. A client without patience says that the outcome is unknown;
// no client gets the items until the lease ends, and then the next one that asks gets all of them.
// Other clients repeat the call, as they do commits and releases, and get their answers.
func TestReserveWithoutAnswer(t *testing.T) {
	t.Parallel()
	const n, lease = 200, 3 * time.Second
	ctx := context.Background()
	daemon := processtest.Start(t, t.TempDir(), []string{"URIFILTER_FILTERS=[{id: 7, name: jobs, kind: exact}, {id: 8, name: news, kind: timing, expire: 24h}]"})
	link := testserver.NewCutter(t, daemon.Addr)
	connect := func(addr string, options ...client.Option) *client.Client {
		c, err := client.New("http://"+addr, options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	cut, once, other := connect(link.Addr), connect(link.Addr, client.WithPatience(0)), connect(daemon.Addr)
	var items []string
	for i := range n {
		items = append(items, leased([]int{i})...)
	}
	for _, filter := range []string{"jobs", "news"} {
		start, cuts := time.Now(), link.Cuts()
		link.CutOnce(0)
		_, err := once.Reserve(ctx, filter, items, lease)
		if link.Pass(); !client.InDoubt(err) || link.Cuts() != cuts+1 {
			t.Fatalf("%s: %v after %d cuts, want an error in doubt after 1", filter, err, link.Cuts()-cuts)
		}
		broken := time.Now()
		var got client.ReserveResult[string]
		for len(got.URIList) == 0 {
			asked := time.Now()
			if got, err = other.Reserve(ctx, filter, items, time.Hour); err != nil {
				t.Fatal(err)
			}
			answered := time.Now()
			if given := len(got.URIList); given != 0 && given != n {
				t.Fatalf("%s: %d of %d are given", filter, given, n)
			} else if given == n && answered.Before(start.Add(lease-time.Millisecond)) { // what the store's clock counts in
				t.Errorf("%s: given %v before the end of the lease", filter, start.Add(lease).Sub(answered))
			} else if given == 0 && (got.Reserved != n || asked.After(broken.Add(lease+time.Second))) {
				t.Fatalf("%s: %d are reserved, %v after the call", filter, got.Reserved, asked.Sub(broken))
			}
			time.Sleep(10 * time.Millisecond)
		}
		repeated := leased([]int{n, n + 1})
		cuts = link.Cuts()
		link.CutOnce(0)
		if mine, err := cut.Reserve(ctx, filter, repeated, time.Hour); err != nil || !slices.Equal(mine.URIList, repeated) || link.Cuts() != cuts+1 {
			t.Errorf("%s: reserve: %+v, %v after %d cuts", filter, mine, err, link.Cuts()-cuts)
		}
		for name, settle := range map[string]func() (client.SettleResult[string], error){
			"commit": func() (client.SettleResult[string], error) {
				return cut.Commit(ctx, filter, got.Reservation, items[:n/2])
			},
			"release": func() (client.SettleResult[string], error) {
				return cut.Release(ctx, filter, got.Reservation, items[n/2:])
			},
		} {
			cuts := link.Cuts()
			link.CutOnce(0)
			if done, err := settle(); err != nil || done.Done != n/2 || link.Cuts() != cuts+1 {
				t.Errorf("%s: %s: %+v, %v after %d cuts", filter, name, done, err, link.Cuts()-cuts)
			}
		}
		if fresh, err := other.Check(ctx, filter, items); err != nil || len(fresh) != n || fresh[0] || !fresh[n-1] {
			t.Errorf("%s: committed and released: %v, %v", filter, fresh, err)
		}
	}
}
