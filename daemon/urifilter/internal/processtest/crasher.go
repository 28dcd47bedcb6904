package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/cr-clawer/urifilter/client"
)

// A Crasher is a client whose items are numbered: it knows which of them were
// acknowledged, and which were in a batch without an answer.
type Crasher struct {
	ID    int
	Next  int
	Acked [][2]int // ranges of items
	Lost  [][2]int // ranges whose answer never came
}

func (c *Crasher) item(n int) string {
	return fmt.Sprintf("https://site-%d.example/page/%d?q=新", c.ID, n)
}

// Body returns the body of a call for a range of items.
func (c *Crasher) Body(r [2]int) string {
	items := make([]string, 0, r[1]-r[0])
	for n := r[0]; n < r[1]; n++ {
		items = append(items, c.item(n))
	}
	text, _ := json.Marshal(map[string]any{"filter_typeid": "uri", "uri_list": items})
	return string(text)
}

// Load sends batches until one fails.
func (c *Crasher) Load(p *Process) error {
	for {
		r := [2]int{c.Next, c.Next + 1 + rand.IntN(1200)}
		c.Next = r[1]
		status, answer, err := p.Post(context.Background(), "/api/v1/filter", c.Body(r))
		if err != nil {
			c.Lost = append(c.Lost, r)
			return nil // killed
		}
		var got client.FilterResult[string]
		if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil {
			return fmt.Errorf("client %d: status %d: %s", c.ID, status, answer)
		}
		c.Acked = append(c.Acked, r)
		// False positives are allowed, a few in ten thousand.
		if n := r[1] - r[0]; got.Total != n || len(got.URIList) < n-5 {
			return fmt.Errorf("client %d: %d of %d new items are new", c.ID, len(got.URIList), n)
		}
	}
}

// MustRemember asks for items and fails if any of them is new.
func (c *Crasher) MustRemember(p *Process, ranges [][2]int) error {
	for _, r := range ranges {
		status, answer, err := p.Post(context.Background(), "/api/v1/filter", c.Body(r))
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("status %d, %v: %s", status, err, answer)
		}
		if !strings.Contains(answer, `"uri_list":[]`) {
			return fmt.Errorf("client %d: of the acknowledged items %v some are new again: %.200s", c.ID, r, answer)
		}
	}
	return nil
}
