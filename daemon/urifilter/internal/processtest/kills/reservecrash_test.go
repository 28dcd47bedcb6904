package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// What a reserver knows about an item.
const (
	free     = iota
	mine     // of one of its reservations
	done     // committed
	doubtful // its reserve call had no answer
)

// reserver is a client of a filter that knows for each of its items who has it.
type reserver struct {
	filter string
	id     int
	state  [3000]int
	of     [3000]string // its reservation
	asked  int          // answers that were held against what is known
	// repeat retries a commit or release without an answer, before the next call.
	repeat func(*processtest.Process) (bool, error)
}

func (r *reserver) item(n int) string { return fmt.Sprintf("https://site-%d.example/job/%d", r.id, n) }

func (r *reserver) post(p *processtest.Process, path string, body map[string]any, into any) (alive bool, err error) {
	body["filter_typeid"] = r.filter
	text, _ := json.Marshal(body)
	status, answer, err := p.Post(context.Background(), "/api/v1/"+path, string(text))
	if err != nil {
		return false, nil
	}
	r.asked++
	if err := json.Unmarshal([]byte(answer), into); status != http.StatusOK || err != nil {
		return true, fmt.Errorf("%s: status %d: %.300s", path, status, answer)
	}
	return true, nil
}

// reserve takes items from..to-1: all that are free, and none that has an owner.
func (r *reserver) reserve(p *processtest.Process, from, to int) (alive bool, err error) {
	var items []string
	for n := from; n < to; n++ {
		items = append(items, r.item(n))
	}
	var got client.ReserveResult[string]
	if alive, err = r.post(p, "reserve", map[string]any{"uri_list": items, "lease": 3600}, &got); !alive || err != nil {
		for n := from; n < to && !alive; n++ {
			if r.state[n] == free {
				r.state[n] = doubtful
			}
		}
		return alive, err
	}
	given := map[string]bool{}
	for _, item := range got.URIList {
		given[item] = true
	}
	for n := from; n < to; n++ {
		if r.state[n] != doubtful && given[r.item(n)] != (r.state[n] == free) {
			return true, fmt.Errorf("item %d is given out: %v, it was in state %d", n, given[r.item(n)], r.state[n])
		}
		if given[r.item(n)] {
			r.state[n], r.of[n] = mine, got.Reservation
		}
	}
	return true, nil
}

// settle commits or releases a part of the reservation of the first reserved item from n on.
func (r *reserver) settle(p *processtest.Process, n int, path string) (alive bool, err error) {
	for n < len(r.state) && r.state[n] != mine {
		n++
	}
	if n == len(r.state) {
		return true, nil
	}
	var which []int
	var items []string
	for i := n; i < len(r.state) && len(which) < 200; i++ {
		if r.state[i] == mine && r.of[i] == r.of[n] {
			which, items = append(which, i), append(items, r.item(i))
		}
	}
	do := func(p *processtest.Process) (bool, error) {
		var got client.SettleResult[string]
		alive, err := r.post(p, path, map[string]any{"uri_list": items, "reservation": r.of[n]}, &got)
		if alive && err == nil && (got.Done != len(items) || got.LostTotal != 0) {
			err = fmt.Errorf("%s of %d: %d done, %d lost", path, len(items), got.Done, got.LostTotal)
		}
		if alive && err == nil {
			for _, i := range which {
				r.state[i] = map[string]int{"commit": done, "release": free}[path]
			}
			r.repeat = nil
		}
		return alive, err
	}
	r.repeat = do
	return do(p)
}

// load reserves, commits and releases until the daemon is gone.
func (r *reserver) load(p *processtest.Process) error {
	for {
		var alive bool
		var err error
		from := rand.IntN(len(r.state) - 1)
		switch rand.IntN(4) {
		case 0:
			alive, err = r.settle(p, from, "commit")
		case 1:
			alive, err = r.settle(p, from, "release")
		default:
			alive, err = r.reserve(p, from, min(len(r.state), from+1+rand.IntN(300)))
		}
		if err != nil || !alive {
			return err
		}
	}
}

// check retries the last call without an answer, and looks at all items.
func (r *reserver) check(p *processtest.Process) error {
	if r.repeat != nil {
		if alive, err := r.repeat(p); err != nil || !alive {
			return fmt.Errorf("made again: %v, alive %v", err, alive)
		}
	}
	_, err := r.reserve(p, 0, len(r.state))
	return err
}

// The real binary is killed at random moments while items are reserved, committed and released:
// the holder of an item keeps it, committed items stay seen, and a call repeated after a restart
// gets its answer.
func TestKill9Reserving(t *testing.T)       { kill9Reserving(t, 6) }
func TestSystemKill9Reserving(t *testing.T) { kill9Reserving(t, 12) }

func kill9Reserving(t *testing.T, rounds int) {
	t.Parallel()
	k := campaign[*reserver]{
		filters: "{id: 7, name: jobs, kind: exact}, {id: 8, name: news, kind: timing, expire: 24h}, {id: 9, name: short, kind: exact, digest: 64}", checkpoint: "64KiB",
		clients:  []*reserver{{id: 0, filter: "jobs"}, {id: 1, filter: "jobs"}, {id: 2, filter: "news"}, {id: 3, filter: "news"}, {id: 4, filter: "short"}, {id: 5, filter: "short"}},
		load:     (*reserver).load,
		answered: func(r *reserver) bool { return r.asked > 0 },
		check: func(r *reserver, p *processtest.Process, _ bool) error {
			if r.asked == 0 {
				return nil // all items are free, to be reserved in parts
			}
			return r.check(p)
		},
	}
	p := k.run(t, rounds)
	asked := 0
	for _, r := range k.clients {
		asked += r.asked
	}
	t.Logf("%d kills, %d answers, each as it should be", rounds, asked)
	end(t, p)
}
