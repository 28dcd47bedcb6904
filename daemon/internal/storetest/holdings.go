package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Holdings is what many callers of one filter were told who reserve items, and commit or release
// them: from it follows whether an item was two callers' at once, or was new after it was seen.
// Only what is certain counts: a caller holds an item from the answer on until a lease after the
// question, or until he asked to settle it. It may be used by several goroutines at once.
type Holdings struct {
	mu    sync.Mutex
	items map[int]*holding
}

type holding struct {
	spans []stretch
	seen  []stretch // from the question to the answer of whoever made it seen
}

type stretch struct {
	asked, from, to time.Time
	by              string // the reservation, "" of seen by an Add
}

// Given notes that a reservation was given items by a call that was made at asked and answered just
// now.
func (h *Holdings) Given(items []int, by string, asked time.Time, lease time.Duration) {
	h.note(items, func(o *holding) {
		o.spans = append(o.spans, stretch{asked: asked, from: time.Now(), to: asked.Add(lease), by: by})
	})
}

// Settling notes that the reservation is about to commit or release items.
func (h *Holdings) Settling(items []int, by string) {
	now := time.Now()
	h.note(items, func(o *holding) {
		for i := range o.spans {
			if o.spans[i].by == by && now.Before(o.spans[i].to) {
				o.spans[i].to = now
			}
		}
	})
}

// Seen notes that items are seen by a call that was made at asked and answered just now: a
// commit, or an Add that called them new, whose by is "".
func (h *Holdings) Seen(items []int, by string, asked time.Time) {
	h.note(items, func(o *holding) {
		o.seen = append(o.seen, stretch{asked: asked, from: asked, to: time.Now(), by: by})
	})
}

func (h *Holdings) note(items []int, note func(*holding)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.items == nil {
		h.items = map[int]*holding{}
	}
	for _, item := range items {
		if h.items[item] == nil {
			h.items[item] = &holding{}
		}
		note(h.items[item])
	}
}

// IsSeen tells whether an item is seen.
func (h *Holdings) IsSeen(item int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.items[item] != nil && len(h.items[item].seen) > 0
}

// Count is how often items were given, and how many are seen.
func (h *Holdings) Count() (given, seen int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.items {
		given += len(o.spans)
		seen += min(1, len(o.seen))
	}
	return given, seen
}

// Check tells what must not be, of each item the first.
func (h *Holdings) Check() (faults []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for item, o := range h.items {
		if fault := o.fault(); fault != "" {
			faults = append(faults, fmt.Sprintf("item %d %s", item, fault))
		}
	}
	return faults
}

func (o *holding) fault() string {
	spans := slices.DeleteFunc(slices.Clone(o.spans), func(s stretch) bool { return !s.from.Before(s.to) })
	slices.SortFunc(spans, func(a, b stretch) int { return a.from.Compare(b.from) })
	for i := 1; i < len(spans); i++ {
		if before := spans[i-1]; spans[i].from.Before(before.to) && spans[i].by != before.by {
			return fmt.Sprintf("was held by two: given to %s, and %v later to %s", before.by, spans[i].from.Sub(before.from), spans[i].by)
		}
	}
	if len(o.seen) > 1 {
		return fmt.Sprintf("was made seen by %q and by %q", o.seen[0].by, o.seen[1].by)
	}
	for _, s := range o.seen {
		for _, other := range o.spans {
			if other.asked.After(s.to) {
				return fmt.Sprintf("was given to %s, %v after it was made seen by %q", other.by, other.asked.Sub(s.to), s.by)
			}
			if other.by != s.by && other.from.Before(s.from) && s.to.Before(other.to) {
				return fmt.Sprintf("was made seen by %q while %s held it", s.by, other.by)
			}
		}
	}
	return ""
}
