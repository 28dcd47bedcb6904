package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// expiring is a client of a timing filter that knows for each of its items when it was
// accepted: within the call that found it new. So it can check for every answer whether it
// was possible at some moment of its call.
type expiring struct {
	id     int
	expire time.Duration
	items  []acceptance
	asked  int // answers that were held against what is known
}

// acceptance is the earliest and the latest time at which an item was last accepted. A call
// without an answer may have accepted it: then until is when the call was given up, and from
// is zero if no other call has. lost is when the first call without an answer was sent.
type acceptance struct{ from, until, lost time.Time }

// tickSlack allows for daemons that count whole milliseconds, across a restart by the machine's
// clock.
const tickSlack = 10 * time.Millisecond

func (e *expiring) item(n int) string { return fmt.Sprintf("https://site-%d.example/news/%d", e.id, n) }

// ask calls for items from..to-1, and checks the answer against what is known. Without an
// answer it returns alive false.
func (e *expiring) ask(p *processtest.Process, from, to int) (alive bool, err error) {
	items := make([]string, 0, to-from)
	for n := from; n < to; n++ {
		items = append(items, e.item(n))
	}
	body, _ := json.Marshal(map[string]any{"filter_typeid": "news", "uri_list": items, "expire": e.expire.Seconds()})
	for len(e.items) < to {
		e.items = append(e.items, acceptance{})
	}
	sent := time.Now()
	status, answer, err := p.Post(context.Background(), "/api/v1/filter", string(body))
	answered := time.Now()
	if err != nil {
		for n := from; n < to; n++ {
			a := &e.items[n]
			if a.until = answered; a.lost.IsZero() {
				a.lost = sent
			}
		}
		return false, nil
	}
	var got client.FilterResult[string]
	if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil {
		return true, fmt.Errorf("status %d: %.300s", status, answer)
	}
	isNew := map[string]bool{}
	for _, item := range got.URIList {
		isNew[item] = true
	}
	for n := from; n < to; n++ {
		a := &e.items[n]
		e.asked++
		switch {
		case isNew[e.item(n)]:
			if !a.from.IsZero() && answered.Before(a.from.Add(e.expire-tickSlack)) {
				return true, fmt.Errorf("item %d is new %v after it was accepted, at most; it expires after %v", n, answered.Sub(a.from), e.expire)
			}
			*a = acceptance{from: sent, until: answered}
		case a.until.IsZero():
			return true, fmt.Errorf("item %d was never sent, and is a duplicate", n)
		case sent.After(a.until.Add(e.expire + tickSlack)):
			return true, fmt.Errorf("item %d is a duplicate %v after it was accepted, at least; it expires after %v", n, sent.Sub(a.until), e.expire)
		case a.from.IsZero(): // the call without an answer had accepted it
			a.from = a.lost
		}
	}
	return true, nil
}

// load sends new items and, as many, old ones until the daemon is gone.
func (e *expiring) load(p *processtest.Process) error {
	for {
		next := len(e.items)
		ranges := [][2]int{{next, next + 1 + rand.IntN(400)}}
		if next > 0 {
			from := max(0, next-1-rand.IntN(3000))
			if rand.IntN(4) == 0 {
				from = rand.IntN(next)
			}
			ranges = append(ranges, [2]int{from, min(next, from+400)})
		}
		for _, r := range ranges {
			if alive, err := e.ask(p, r[0], r[1]); err != nil || !alive {
				return err
			}
		}
	}
}

// The real binary under load is killed at random moments, while items are accepted,
// expire and are accepted again: none is a duplicate after it expired, and no acknowledged
// item is new before.
func TestKill9Timing(t *testing.T)       { kill9Timing(t, 10) }
func TestSystemKill9Timing(t *testing.T) { kill9Timing(t, 12) }

func kill9Timing(t *testing.T, rounds int) {
	t.Parallel()
	k := campaign[*expiring]{
		filters: "{id: 7, name: news, kind: timing}", checkpoint: "64KiB",
		clients: []*expiring{
			{id: 0, expire: 30 * time.Millisecond}, {id: 1, expire: 400 * time.Millisecond},
			{id: 2, expire: 3 * time.Second}, {id: 3, expire: 24 * time.Hour},
		},
		load:     (*expiring).load,
		answered: func(e *expiring) bool { return e.asked > 0 },
		check: func(e *expiring, p *processtest.Process, last bool) error {
			starts := []int{len(e.items) - 1000, rand.IntN(len(e.items) + 1)} // of the last calls, and some of the rest
			for from := 0; last && from < len(e.items); from += 1000 {
				starts = append(starts, from)
			}
			for _, from := range starts {
				from = max(0, from)
				if to := min(from+1000, len(e.items)); to > from {
					if _, err := e.ask(p, from, to); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	p := k.run(t, rounds)
	items, asked := 0, 0
	for _, e := range k.clients {
		items, asked = items+len(e.items), asked+e.asked
	}
	t.Logf("%d kills, %d items, %d answers, each as it should be", rounds+rounds/7, items, asked)
	end(t, p)
}
