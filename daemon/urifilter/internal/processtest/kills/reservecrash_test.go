package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// What a reserver knows of an item.
const (
	free     = iota
	mine     // of one of its reservations
	done     // committed
	doubtful // its reserve call had no answer
)

// reserver is a client of a filter that knows of each of its items who has it.
type reserver struct {
	filter string
	id     int
	state  [3000]int
	of     [3000]string // its reservation
	asked  int          // answers that were held against what is known
	// doubt is a commit or release without an answer: it is made again first.
	doubt func(*processtest.Process) (bool, error)
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

// settle commits or releases a part of the reservation that an item from n on is of.
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
			r.doubt = nil
		}
		return alive, err
	}
	r.doubt = do
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

// check makes the last call again that had no answer, and looks at all items.
func (r *reserver) check(p *processtest.Process) error {
	if r.doubt != nil {
		if alive, err := r.doubt(p); err != nil || !alive {
			return fmt.Errorf("made again: %v, alive %v", err, alive)
		}
	}
	_, err := r.reserve(p, 0, len(r.state))
	return err
}

// The real binary is killed at random moments while items are reserved, committed and released:
// who has an item keeps it, what is committed stays seen, and a call that is made again after a
// restart has its answer.
func TestKill9Reserving(t *testing.T)       { kill9Reserving(t, 6) }
func TestSystemKill9Reserving(t *testing.T) { kill9Reserving(t, 40) }

func kill9Reserving(t *testing.T, rounds int) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{`URIFILTER_FILTERS=[{id: 7, name: jobs, kind: exact}, {id: 8, name: news, kind: timing, expire: 24h}]`, "URIFILTER_CHECKPOINT_BYTES=64KiB"}
	clients := []*reserver{{id: 0, filter: "jobs"}, {id: 1, filter: "jobs"}, {id: 2, filter: "news"}, {id: 3, filter: "news"}}
	each := func(p *processtest.Process, round int, do func(*reserver) error) {
		t.Helper()
		var wg sync.WaitGroup
		for _, r := range clients {
			wg.Go(func() {
				if err := do(r); err != nil {
					t.Errorf("round %d, client %d: %v", round, r.id, err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.Fatalf("%s", p.Log)
		}
	}
	for round := range rounds {
		p := processtest.Start(t, dir, env, "--durability", []string{"always", "always", "interval", "none"}[round%4])
		if round > 0 {
			each(p, round, func(r *reserver) error { return r.check(p) })
		}
		killer := time.AfterFunc(time.Duration(5+rand.IntN(400))*time.Millisecond, func() { p.Signal(syscall.SIGKILL) })
		each(p, round, func(r *reserver) error { return r.load(p) })
		killer.Stop()
		<-p.Done
		if strings.Contains(p.Log.String(), "panic") {
			t.Fatalf("round %d:\n%s", round, p.Log)
		}
	}
	if out, err := exec.Command(processtest.Binary(t), "verify", "--data-dir", dir).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	p := processtest.Start(t, dir, env)
	each(p, rounds, func(r *reserver) error { return r.check(p) })
	asked := 0
	for _, r := range clients {
		asked += r.asked
	}
	t.Logf("%d kills, %d answers, each as it should be", rounds, asked)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
	}
}
