package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// publisher is a client of a simhash filter that knows which of its pages are remembered.
type publisher struct {
	id      int
	next    int
	acked   []int // numbers of pages, each of which was new
	checked int   // of acked
}

// page returns one of many pages of which none is near another; the lengths of their ids vary.
func (c *publisher) page(n int) client.Document {
	rnd := rand.New(rand.NewPCG(uint64(c.id), uint64(n)))
	var text strings.Builder
	for range 20 {
		fmt.Fprintf(&text, "%x 页 ", rnd.Uint64())
	}
	return client.Document{ID: fmt.Sprintf("https://site-%d.example/%s/%d", c.id, strings.Repeat("x", n%60), n), Text: text.String()}
}

// near sends pages; alive is false if there was no answer.
func (c *publisher) near(p *processtest.Process, pages []client.Document, remember bool) (found []client.Compared, alive bool, err error) {
	body, _ := json.Marshal(map[string]any{"filter_typeid": "pages", "documents": pages, "remember": remember})
	status, answer, err := p.Post(context.Background(), "/api/v1/near", string(body))
	if err != nil {
		return nil, false, nil
	}
	var got client.NearResult
	if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil || len(got.Documents) != len(pages) {
		return nil, true, fmt.Errorf("status %d, %v: %.300s", status, err, answer)
	}
	return got.Documents, true, nil
}

// load sends new pages, and some again, until the daemon is gone.
func (c *publisher) load(p *processtest.Process) error {
	for {
		from := c.next
		var pages []client.Document
		for c.next < from+1+rand.IntN(40) {
			pages = append(pages, c.page(c.next))
			c.next++
		}
		again := len(c.acked) > 0
		if again {
			pages = append(pages, c.page(c.acked[rand.IntN(len(c.acked))]))
		}
		found, alive, err := c.near(p, pages, true)
		if err != nil || !alive {
			return err
		}
		for i, f := range found {
			if !f.New || len(f.Near) > 0 {
				return fmt.Errorf("page %s is not new: %+v", pages[i].ID, f)
			}
		}
		for n := from; n < c.next; n++ {
			c.acked = append(c.acked, n)
		}
	}
}

// mustRemember checks that an edited copy of each of these pages finds the page under its id.
func (c *publisher) mustRemember(p *processtest.Process, pages []int) error {
	for part := range slices.Chunk(pages, 500) {
		var copies []client.Document
		for _, n := range part {
			page := c.page(n)
			copies = append(copies, client.Document{ID: "copy of " + page.ID, Text: strings.ToUpper(page.Text) + "!"})
		}
		found, alive, err := c.near(p, copies, false)
		if err != nil || !alive {
			return fmt.Errorf("alive %v, %w", alive, err)
		}
		for i, f := range found {
			if f.New || len(f.Near) != 1 || f.Near[0] != (client.NearDocument{ID: c.page(part[i]).ID}) {
				return fmt.Errorf("page %d is forgotten, or another: %+v", part[i], f)
			}
		}
	}
	return nil
}

// The real binary under load is killed at random moments, while documents are remembered:
// acknowledged ones are found under their ids, and repeated ones get the same answer as before.
func TestKill9Near(t *testing.T)       { kill9Near(t, 4) }
func TestSystemKill9Near(t *testing.T) { kill9Near(t, 10) }

func kill9Near(t *testing.T, rounds int) {
	t.Parallel()
	k := campaign[*publisher]{
		filters: "{id: 7, name: pages, kind: simhash}", checkpoint: "64KiB",
		clients: []*publisher{{id: 0}, {id: 1}, {id: 2}}, load: (*publisher).load,
		answered: func(c *publisher) bool { return len(c.acked) > 0 },
		check: func(c *publisher, p *processtest.Process, last bool) error {
			return c.mustRemember(p, sample(c.acked, &c.checked, last))
		},
		verified: "fingerprints: ",
	}
	p := k.run(t, rounds)
	pages := 0
	for _, c := range k.clients {
		pages += len(c.acked)
	}
	t.Logf("%d kills, all of %d pages are found", rounds, pages)
	end(t, p)
}
