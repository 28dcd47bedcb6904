package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
)

// Compared is the result for the documents of one call.
type Compared struct {
	Filter    *engine.Filter
	Documents []engine.Document
	Found     []engine.Comparison // for each document
}

// nearTold is how many near documents a call gets for each document if it sets no limit.
const nearTold = 10

// Near compares the documents of a call with those that a filter remembers, and remembers them
// if the call wants that: all of them or, on an error like those of Judge, none. tell is that of
// engine.Nearness. It returns the
// errors of Engine.Lookup and Filter.Similar, an *items.Error for what cannot be compared, and
// the errors of Filter.Near.
func (j *Judge) Near(ctx context.Context, r *items.NearRequest, tell func(bytes int) bool) (Compared, error) {
	f, err := j.Engine.Find(ctx, r.Filter)
	if err != nil {
		return Compared{}, err
	}
	set, err := f.Similar()
	if err != nil {
		return Compared{}, err
	}
	how := engine.Nearness{Distance: r.Distance, Limit: r.Limit, Remember: r.Remember, Tell: tell}
	if r.Distance < 0 {
		how.Distance = set.Distance()
	}
	if r.Limit < 0 {
		how.Limit = nearTold
	}
	switch {
	case how.Distance > set.Distance():
		return Compared{}, &items.Error{Code: items.DistanceInvalid, Index: -1, Offset: -1,
			Detail: fmt.Sprintf("distance: %d: filter %s was made for %d at most; for a larger one make another filter, and send it all documents", how.Distance, f.Name, set.Distance())}
	case how.Limit < 1 || how.Limit > engine.MaxNear:
		return Compared{}, &items.Error{Code: items.LimitInvalid, Index: -1, Offset: -1, Detail: fmt.Sprintf("limit: %d: want 1 to %d", how.Limit, engine.MaxNear)}
	}
	entries := 0 // in the journal: an id may take many
	c := Compared{Filter: f, Documents: make([]engine.Document, len(r.Documents)), Found: make([]engine.Comparison, len(r.Documents))}
	for i, d := range r.Documents {
		print, ok := set.Fingerprint(d.Text)
		if !ok {
			return Compared{}, &items.Error{Code: items.TextTooShort, Index: i, Offset: -1,
				Detail: fmt.Sprintf("the text of %d bytes has fewer than three letters or digits, and can be near no other; leave the document out", len(d.Text))}
		}
		c.Documents[i] = engine.Document{ID: d.ID, Fingerprint: print}
		entries += 1 + len(d.ID)/16
		if err := ctx.Err(); err != nil { // nobody waits for the rest
			return Compared{}, err
		}
	}
	op := Look
	if r.Remember {
		op = Near
	}
	err = j.followCleared(ctx, f, func(f *engine.Filter) error {
		work, err := f.Begin(ctx, entries)
		if err != nil {
			return err
		}
		defer f.End(work)
		start := time.Now()
		err = f.Near(ctx, c.Documents, how, c.Found)
		fresh := 0
		for _, found := range c.Found {
			if found.New {
				fresh++
			}
		}
		j.Observe(op, f, time.Since(start), Counts{All: len(c.Found), New: fresh}, err)
		return err
	})
	return c, err
}
