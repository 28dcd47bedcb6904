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
	// onPage is how many filters one page shows, mostNotes how many warnings.
	onPage    = 50
	mostNotes = 20
	// slow is the time of a batch in the store from which there is a warning.
	slow = 500 * time.Millisecond
	// monthly is the age of a writeback from which there is a warning if the settings name no interval.
	monthly = 40 * 24 * time.Hour
)

// look is how all filters are at one time.
type look struct {
	Ready       string // why the daemon is not; "": it is
	Rows        []row
	Notes       []note // warnings, the worst first
	Quarantined []engine.Quarantined
	Waiting     []string
	Copies      []backup.Underway
	All         Rates
	PerBatch    time.Duration
	Memory      struct{ Used, Limit uint64 }
	Archive     string // "", away, connected
	About       About
}

// note is a warning: a text with its arguments.
type note struct {
	Filter string // "": of the daemon
	Key    string
	Args   []any
	Level  string // bad or warn
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
	bad := func(key string, args ...any) { l.Notes = append(l.Notes, note{"", key, args, "bad"}) }
	if err := s.Ready(ctx); err != nil {
		_, _, l.Ready = s.Explain(err)
		bad("note.notready", l.Ready)
	}
	if l.PerBatch > slow {
		l.Notes = append(l.Notes, note{"", "note.slow", []any{l.PerBatch.Round(time.Millisecond).String()}, "warn"})
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
		l.Notes = append(l.Notes, note{"", "note.memory", []any{percentOf(l.Memory.Used, l.Memory.Limit)}, "warn"})
	}
	for _, q := range l.Quarantined {
		reason, _, _ := strings.Cut(q.Cause.Error(), "\n")
		l.Notes = append(l.Notes, note{q.Name, "note.quarantine", []any{reason}, "bad"})
	}
	for _, name := range l.Waiting {
		cause := ""
		var waits *engine.RestoringError
		if _, err := s.Engine.Lookup(name); errors.As(err, &waits) && waits.Cause != nil {
			cause, _, _ = strings.Cut(waits.Cause.Error(), "\n")
		}
		l.Notes = append(l.Notes, note{name, "note.waiting", []any{cause}, "warn"})
	}
	for _, f := range s.Engine.Filters() {
		r, notes := s.rowOf(f)
		l.All.New += r.Rates.New
		l.All.Seen += r.Rates.Seen
		l.All.Checked += r.Rates.Checked
		l.Rows, l.Notes = append(l.Rows, r), append(l.Notes, notes...)
	}
	slices.SortStableFunc(l.Notes, func(a, b note) int { return cmp.Compare(a.Level, b.Level) }) // bad before warn
	return l
}

func percentOf(part, all uint64) string {
	return strconv.Itoa(int(float64(part)/float64(all)*100)) + " %"
}

// rowOf describes a filter, with its warnings.
func (s *Status) rowOf(f *engine.Filter) (row, []note) {
	st, bound := f.Stats(), f.Bound()
	r := row{ID: f.ID, Name: f.Name, Kind: f.Kind, Items: st.Items, Bytes: st.Bytes, Asked: bound.ErrorRate, Capacity: bound.Items, Grows: bound.Grows(), filter: f, Level: "ok"}
	var notes []note
	warn := func(level, key string, args ...any) {
		notes = append(notes, note{f.Name, key, args, level})
		if r.Level != "bad" {
			r.Level = level
		}
	}
	var made time.Time
	if bits, ok := f.Set.(engine.BitMap); ok {
		r.BitMap, r.Estimate, r.FPR, r.Written, made = true, true, st.FPR, st.LastWriteback, bits.Header().Created
	}
	switch layered := f.Set.(type) {
	case engine.Layered:
		r.Capacity = 0
		for _, l := range layered.Layers() {
			r.Capacity += l.Header.Capacity
		}
	case engine.Dumped:
		r.Capacity = layered.Layers().Capacity
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
		warn("warn", "note.nearfull", percentOf(uint64(share*100), 100))
	case share >= engine.NearlyFull:
		warn("warn", "note.near", percentOf(uint64(share*100), 100))
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
	Shown      []row
	Found      int // of them are on this page, or others
	From       int // of Shown, in all that were found
	Sort       string
	More       int // warnings that are not shown
	Prev, Next string
}

// Last is the number of the last filter shown.
func (l list) Last() int { return l.From + len(l.Shown) }

// orders are how filters can be sorted.
func orders() map[string]func(a, b row) int {
	return map[string]func(a, b row) int{
		"name":  func(a, b row) int { return strings.Compare(a.Name, b.Name) },
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
	all := list{look: s.shared(v.Request.Context()), Sort: v.Query("sort")}
	order, known := orders()[all.Sort]
	if !known {
		all.Sort = "name"
		order = orders()["name"]
	}
	wanted := strings.ToLower(strings.TrimSpace(v.Query("q")))
	rows := make([]row, 0, len(all.Rows))
	for _, r := range all.Rows {
		if wanted == "" || strings.Contains(strings.ToLower(r.Name), wanted) || strings.ToLower(r.Kind) == wanted {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(order(a, b), strings.Compare(a.Name, b.Name)) })
	all.Found = len(rows)
	number, _ := strconv.Atoi(v.Query("page"))
	all.From = min(max(0, number), max(0, len(rows)-1)/onPage) * onPage
	all.Shown = rows[all.From:min(len(rows), all.From+onPage)]
	for i := range all.Shown {
		fresh, seen := series(all.Shown[i].samples, 3)
		all.Shown[i].Spark = page.NewChart(110, 24, kept/3, fresh, seen)
	}
	if all.From > 0 {
		all.Prev = v.With("page", pageNumber(all.From/onPage-1))
	}
	if all.Last() < len(rows) {
		all.Next = v.With("page", pageNumber(all.From/onPage+1))
	}
	if all.More = len(all.Notes) - mostNotes; all.More < 0 {
		all.More = 0
	}
	return all, nil
}

// TopNotes are the warnings that are shown.
func (l list) TopNotes() []note { return l.Notes[:len(l.Notes)-l.More] }

func pageNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// one is what the page of one filter shows.
type one struct {
	row
	Notes   []note
	Members []configs.Member
	Layers  int
	Chart   page.Chart
	Peak    float64
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
