package status

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
)

const (
	// slow is the time of a batch in the store from which there is a warning.
	slow = 500 * time.Millisecond
	// monthly is the age of a writeback from which there is a warning if the settings name no interval.
	monthly = 40 * 24 * time.Hour
)

// look is how all filters are at one time.
type look struct {
	Ready       string // why the daemon is not; "": it is
	Rows        []row
	Notes       page.Notes
	Quarantined []engine.Quarantined
	Waiting     []string
	Copies      []backup.Underway
	Rates       Rates // of all filters
	PerBatch    time.Duration
	Memory      struct{ Used, Limit uint64 }
	Archive     string // "", away, connected
	About       About
}

// row is one filter.
type row struct {
	ID         int
	Name, Kind string
	Items      uint64
	Estimate   bool // of Items
	Capacity   uint64
	Grows      bool
	Share      float64 // of Items in Capacity
	FPR, Asked float64
	Bytes      uint64
	BitMap     bool
	Written    time.Time
	Rates      Rates
	Spark      page.Chart
	Level      string // ok, warn, bad: the worst of its warnings

	filter  *engine.Filter
	samples []sample
}

// see takes a look.
func (s *Status) see(ctx context.Context) *look {
	l := &look{About: s.About, Quarantined: s.Engine.Quarantined(), Waiting: s.Engine.Waiting(), PerBatch: s.history.perBatch()}
	l.Memory.Used, l.Memory.Limit = s.Engine.Memory()
	bad := func(key string, args ...any) {
		l.Notes = append(l.Notes, page.Note{Key: key, Args: args, Level: "bad"})
	}
	if err := s.Ready(ctx); err != nil {
		_, _, l.Ready = s.Explain(err)
		bad("note.notready", l.Ready)
	}
	if l.PerBatch > slow {
		l.Notes = append(l.Notes, page.Note{Key: "note.slow", Args: []any{l.PerBatch.Round(time.Millisecond).String()}, Level: "warn"})
	}
	if s.About.Archive != nil {
		l.Archive, l.Copies = "away", s.About.Archive.Underway()
		if s.About.Archive.Connected() {
			l.Archive = "connected"
		} else {
			bad("note.archive")
		}
	}
	if l.Memory.Limit > 0 && float64(l.Memory.Used) > engine.NearlyFull*float64(l.Memory.Limit) {
		l.Notes = append(l.Notes, page.Note{Key: "note.memory", Args: []any{page.Percent(float64(l.Memory.Used) / float64(l.Memory.Limit))}, Level: "warn"})
	}
	for _, q := range l.Quarantined {
		reason, _, _ := strings.Cut(q.Cause.Error(), "\n")
		l.Notes = append(l.Notes, page.Note{Of: q.Name, Link: pathFilters + page.Escaped(q.Name), Key: "note.quarantine", Args: []any{reason}, Level: "bad"})
	}
	for _, name := range l.Waiting {
		cause := ""
		var waits *engine.RestoringError
		if _, err := s.Engine.Lookup(name); errors.As(err, &waits) && waits.Cause != nil {
			cause, _, _ = strings.Cut(waits.Cause.Error(), "\n")
		}
		l.Notes = append(l.Notes, page.Note{Of: name, Link: pathFilters + page.Escaped(name), Key: "note.waiting", Args: []any{cause}, Level: "warn"})
	}
	for _, f := range s.Engine.Filters() {
		r, notes := s.rowOf(f)
		l.Rates.New += r.Rates.New
		l.Rates.Seen += r.Rates.Seen
		l.Rates.Checked += r.Rates.Checked
		l.Rows, l.Notes = append(l.Rows, r), append(l.Notes, notes...)
	}
	l.Notes = l.Notes.Sorted()
	slices.SortFunc(l.Rows, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	return l
}

// rowOf describes a filter, with its warnings.
func (s *Status) rowOf(f *engine.Filter) (row, page.Notes) {
	st, bound := f.Stats(), f.Bound()
	r := row{ID: f.ID, Name: f.Name, Kind: f.Kind, Items: st.Items, Bytes: st.Bytes, Asked: bound.ErrorRate, Capacity: f.Capacity(), Grows: bound.Grows(), filter: f, Level: "ok"}
	var notes page.Notes
	warn := func(level, key string, args ...any) {
		notes = append(notes, page.Note{Of: f.Name, Link: pathFilters + page.Escaped(f.Name), Key: key, Args: args, Level: level})
		if r.Level != "bad" {
			r.Level = level
		}
	}
	var made time.Time
	if bits, ok := f.Set.(engine.BitMap); ok {
		r.BitMap, r.Estimate, r.FPR, r.Written, made = true, true, st.FPR, st.LastWriteback, bits.Header().Created
	}
	if r.Capacity > 0 {
		r.Share = float64(r.Items) / float64(r.Capacity)
	}
	share, refuses := f.Full()
	switch fpr, over := f.OverCapacity(0); {
	case share >= 1 && refuses:
		warn("bad", "note.full")
	case over:
		warn("bad", "note.over", page.Percent(fpr), page.Percent(bound.ErrorRate))
	case share >= engine.NearlyFull && refuses:
		warn("warn", "note.nearfull", page.Percent(share))
	case share >= engine.NearlyFull:
		warn("warn", "note.near", page.Percent(share))
	}
	if late := cmp.Or(2*s.About.WritebackEvery, monthly); s.About.Archive != nil && r.BitMap && r.Items > 0 {
		switch now := s.Now(); {
		case r.Written.IsZero() && now.Sub(made) > late:
			warn("warn", "note.neverwritten")
		case !r.Written.IsZero() && now.Sub(r.Written) > late:
			warn("warn", "note.written", strconv.Itoa(int(now.Sub(r.Written).Hours())))
		}
	}
	r.Rates, r.samples = s.history.rates(f)
	return r, notes
}

// list is what the page of all filters shows.
type list struct {
	*look
	page.List[row]
}

// orders are how filters can be sorted besides by name.
func orders() map[string]func(a, b row) int {
	return map[string]func(a, b row) int{
		"kind":  func(a, b row) int { return strings.Compare(a.Kind, b.Kind) },
		"items": func(a, b row) int { return cmp.Compare(b.Items, a.Items) },
		"fill":  func(a, b row) int { return cmp.Compare(b.Share, a.Share) },
		"rate":  func(a, b row) int { return cmp.Compare(b.Rates.New+b.Rates.Seen, a.Rates.New+a.Rates.Seen) },
		"bytes": func(a, b row) int { return cmp.Compare(b.Bytes, a.Bytes) },
	}
}

func (s *Status) shared(ctx context.Context) *look {
	l, _ := s.look.Get(s.Now, func() (*look, error) { return s.see(context.WithoutCancel(ctx)), nil }) // it is for others, too
	return l
}

// Forget makes the next browser take a look of its own.
func (s *Status) Forget() { s.look.Drop() }

func (s *Status) filters(v *page.View) (any, error) {
	seen := s.shared(v.Request.Context())
	matches := func(r row, q string) bool { return strings.Contains(strings.ToLower(r.Name), q) || r.Kind == q }
	all := list{seen, page.Listed(v, seen.Rows, matches, orders())}
	for i := range all.Shown {
		fresh, seen := series(all.Shown[i].samples, 3)
		all.Shown[i].Spark = page.NewChart(110, 24, kept/3, fresh, seen)
	}
	return all, nil
}

// one is what the page of one filter shows.
type one struct {
	row
	Notes   page.Notes
	Members []configs.Member
	Layers  int
	Chart   page.Chart
	Calls   []call
	Archive bool
}

func (s *Status) filter(v *page.View) (any, error) {
	f, err := s.Engine.Find(v.Request.Context(), v.Request.PathValue("name"))
	if err != nil {
		return nil, err
	}
	o := one{Members: f.Members(), Archive: s.About.Archive != nil, Calls: s.calls(v, f)}
	o.row, o.Notes = s.rowOf(f)
	if layered, ok := f.Set.(engine.Layered); ok {
		o.Layers = len(layered.Layers())
	}
	fresh, seen := series(o.samples, 1)
	o.Chart = page.NewChart(600, 160, kept, fresh, seen)
	return o, nil
}
