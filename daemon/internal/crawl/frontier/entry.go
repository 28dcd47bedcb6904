package frontier

import "time"

// Entry is a URI to be fetched.
type Entry struct {
	ID       int64 // the order of discovery
	Key      Key
	URI      string
	Host     string // the host to call
	Depth    int    // links from a seed
	Referrer string // where it was found; "": a seed
	Attempts int    // failed ones
	after    time.Time
	host     *host
}

// before is the order in which URIs are fetched: by depth, then those that failed last, then as
// they were found.
func (e *Entry) before(o *Entry) bool {
	switch {
	case e.Depth != o.Depth:
		return e.Depth < o.Depth
	case e.Attempts != o.Attempts:
		return e.Attempts < o.Attempts
	}
	return e.ID < o.ID
}

// entryHeap is ordered by fetching order, or by time.
type entryHeap struct {
	all    []*Entry
	byTime bool
}

func (h *entryHeap) Len() int      { return len(h.all) }
func (h *entryHeap) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *entryHeap) Push(x any)    { h.all = append(h.all, x.(*Entry)) }
func (h *entryHeap) Less(i, j int) bool {
	if a, b := h.all[i], h.all[j]; h.byTime && !a.after.Equal(b.after) {
		return a.after.Before(b.after)
	}
	return h.all[i].before(h.all[j])
}
func (h *entryHeap) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}

func (h *entryHeap) top() *Entry {
	if len(h.all) == 0 {
		return nil
	}
	return h.all[0]
}
