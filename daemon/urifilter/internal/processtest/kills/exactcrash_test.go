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

// forgetter is a client of an exact filter that knows for each of its items whether it is seen,
// except for those whose last call had no answer.
type forgetter struct {
	filter  string
	id      int
	seen    [4000]bool
	unknown [4000]bool
	asked   int // answers that were held against what is known
}

// call filters or forgets items from..to-1, and checks the answer against what is known.
// Without an answer it returns alive false.
func (f *forgetter) call(p *processtest.Process, path string, from, to int) (alive bool, err error) {
	var items []string
	for n := from; n < to; n++ {
		items = append(items, fmt.Sprintf("https://site-%d.example/job/%d", f.id, n))
	}
	body, _ := json.Marshal(map[string]any{"filter_typeid": f.filter, "uri_list": items})
	status, answer, err := p.Post(context.Background(), "/api/v1/"+path, string(body))
	if err != nil {
		for n := from; n < to; n++ {
			f.unknown[n] = true
		}
		return false, nil
	}
	var got struct {
		client.FilterResult[string]
		Forgotten int `json:"forgotten"`
	}
	if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil {
		return true, fmt.Errorf("status %d: %.300s", status, answer)
	}
	isNew := map[string]bool{}
	for _, item := range got.URIList {
		isNew[item] = true
	}
	least, most := 0, 0 // that can have been forgotten
	for n := from; n < to; n++ {
		f.asked++
		if f.unknown[n] || f.seen[n] {
			most++
		}
		if !f.unknown[n] && f.seen[n] {
			least++
		}
		if path == "filter" && !f.unknown[n] && isNew[items[n-from]] == f.seen[n] {
			return true, fmt.Errorf("item %d is new %v, and was seen %v", n, isNew[items[n-from]], f.seen[n])
		}
		f.seen[n], f.unknown[n] = path == "filter", false
	}
	if path == "forget" && (got.Forgotten < least || got.Forgotten > most) {
		return true, fmt.Errorf("%d are forgotten, want %d to %d", got.Forgotten, least, most)
	}
	return true, nil
}

// load adds and forgets until the daemon is gone.
func (f *forgetter) load(p *processtest.Process) error {
	for {
		from := rand.IntN(len(f.seen) - 1)
		path := []string{"filter", "filter", "forget"}[rand.IntN(3)]
		if alive, err := f.call(p, path, from, min(len(f.seen), from+1+rand.IntN(400))); err != nil || !alive {
			return err
		}
	}
}

// The real binary under load is killed at random moments, while items are added and
// forgotten: acknowledged changes stay.
func TestKill9Exact(t *testing.T)       { kill9Exact(t, 8) }
func TestSystemKill9Exact(t *testing.T) { kill9Exact(t, 12) }

func kill9Exact(t *testing.T, rounds int) {
	t.Parallel()
	k := campaign[*forgetter]{
		filters: "{id: 7, name: jobs, kind: exact}, {id: 8, name: short, kind: exact, digest: 64}", checkpoint: "64KiB",
		clients: []*forgetter{{id: 0, filter: "jobs"}, {id: 1, filter: "jobs"}, {id: 2, filter: "short"}, {id: 3, filter: "short"}}, load: (*forgetter).load,
		answered: func(f *forgetter) bool { return f.asked > 0 },
		check: func(f *forgetter, p *processtest.Process, _ bool) error {
			_, err := f.call(p, "filter", 0, len(f.seen))
			return err
		},
	}
	p := k.run(t, rounds)
	asked := 0
	for _, f := range k.clients {
		asked += f.asked
	}
	t.Logf("%d kills, %d answers, each as it should be", rounds, asked)
	end(t, p)
}
