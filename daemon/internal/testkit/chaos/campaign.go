//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/chaos/wallclock"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// Options of a campaign.
type Options struct {
	// Duration of all rounds together, without the time to start and judge them.
	Duration time.Duration
	// Round is how long a round takes.
	Round time.Duration
	// Seed of the first round; each further round has the next seed.
	Seed uint64
	// Stores take turns: embedded, redis, sentinel, cluster, mysql.
	Stores []string
	// Faults are the names of those that may happen, as in the package comment.
	Faults []string
	// Beside is a revision of git, whose program takes turns with that of the working tree: half of the daemons
	// begin with it, and each is of the other version after a restart. Empty: there is none.
	Beside string
	// Gentle makes fewer faults and calls, for machines with other work to do.
	Gentle bool
	// Out receives progress, figures and what breaks the rule.
	Out io.Writer
}

// campaign is a run of several rounds.
type campaign struct {
	Options
	t        testing.TB
	binaries []string // take turns
	module   string

	mu       sync.Mutex
	start    time.Time
	told     map[history.Outcome]int // items
	calls    int
	errors   map[string]int // calls, by what they were told
	faults   map[string]int
	missed   map[string]int  // faults that could not be done
	possible map[string]bool // faults that some round so far could have; one round is made at a time
	rules    map[history.Rule]int
	wrong    []string
}

// Run runs a campaign, and fails t if an answer breaks the rule, if a daemon does not
// recover, or if too little happened to show anything.
func Run(t testing.TB, o Options) {
	t.Helper()
	c := &campaign{
		Options: o, t: t, start: time.Now(), told: map[history.Outcome]int{}, errors: map[string]int{},
		faults: map[string]int{}, missed: map[string]int{}, rules: map[history.Rule]int{}, possible: map[string]bool{},
	}
	for _, name := range o.Faults {
		if !slices.Contains(Faults(), name) {
			t.Fatalf("fault %q: want some of %s", name, strings.Join(Faults(), ", "))
		}
	}
	var err error
	fmt.Fprintf(o.Out, "chaos: seed %d, %s of %s, faults %s\n", o.Seed, o.Duration, strings.Join(o.Stores, ", "), strings.Join(o.Faults, ", "))
	for _, revision := range slices.Compact([]string{o.Beside, ""}) {
		var binary string
		if binary, c.module, err = wallclock.Build(t.TempDir(), revision, c.has("clock")); err != nil {
			t.Fatal(err)
		}
		c.binaries = append(c.binaries, binary)
	}
	// Ctrl-C ends the campaign; what has happened so far is judged.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c.start = time.Now()
	var spent time.Duration
	for i := 0; spent < o.Duration && ctx.Err() == nil; i++ {
		length := min(o.Round, o.Duration-spent)
		spent += length
		c.round(ctx, o.Stores[i%len(o.Stores)], o.Seed+uint64(i), length)
	}
	c.sum()
	if ctx.Err() == nil {
		c.mustHaveTried()
	}
	for _, w := range c.wrong {
		t.Errorf("%s", w)
	}
	if len(c.wrong) > 0 {
		t.Errorf("the rule is broken, or a daemon does not recover; the seed is %d", o.Seed)
	}
}

func (c *campaign) has(fault string) bool { return slices.Contains(c.Faults, fault) }

// pace bounds the milliseconds between two calls of a caller, gap those between two faults.
func (c *campaign) pace() int { return 60 + 100*btoi(c.Gentle) }
func (c *campaign) gap() int  { return 700 + 800*btoi(c.Gentle) }

func (c *campaign) elapsed() time.Duration { return time.Since(c.start) }

// round runs a round and notes what is wrong with it.
func (c *campaign) round(ctx context.Context, store string, seed uint64, length time.Duration) {
	r, err := c.begin(store, seed)
	if err == nil {
		err = r.disturb(ctx, length)
	}
	evicted := 0.0
	if err == nil && r.bounded {
		evicted, err = r.evicted()
	}
	if r.rig != nil {
		err = errors.Join(append(r.rig.close(), err)...)
	}
	if err != nil {
		r.fail("%v", err)
	}
	report := r.judge()
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.Out, "%s: %s, seed %d: %d calls, %d items, %d of them break the rule, %d false positives, %.0f items evicted from tight mirrors\n",
		stamp(c.elapsed()), store, seed, report.Calls, report.Items, len(report.Violations), report.FalsePositives, evicted)
	for rule, n := range report.Rules() {
		c.rules[rule] += n
		r.wrong = append(r.wrong, fmt.Sprintf("%d items: %s", n, rule))
	}
	for _, v := range report.Shortest(2) {
		v.Print(c.Out, r.history, func(i history.Item) string {
			return fmt.Sprintf("%s in filter %s (incarnation %d)", itemText(seed, i.Number), i.Filter, i.Incarnation+1)
		})
	}
	for _, w := range r.wrong {
		c.wrong = append(c.wrong, fmt.Sprintf("%s, seed %d: %s", store, seed, w))
	}
}

func stamp(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// count notes a call for the figures.
func (c *campaign) count(call *history.Call, items int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	for _, o := range call.Outcomes[:items] {
		c.told[o]++
	}
	if call.Told != "" {
		c.errors[call.Told]++
	}
}

func (c *campaign) countFault(name string)  { c.mu.Lock(); c.faults[name]++; c.mu.Unlock() }
func (c *campaign) missedFault(name string) { c.mu.Lock(); c.missed[name]++; c.mu.Unlock() }

// figures returns one line about what has happened so far.
func (c *campaign) figures() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s: %d calls; items: %s; faults: %s", stamp(c.elapsed()), c.calls, counts(c.told), counts(c.faults))
}

func counts[K interface {
	~string | ~uint8
}](m map[K]int) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%v %d", k, m[k]))
	}
	return strings.Join(all, ", ")
}

// sum prints the figures of the campaign.
func (c *campaign) sum() {
	fmt.Fprintln(c.Out, c.figures())
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.Out, "errors told: %s\n", counts(c.errors))
	if len(c.missed) > 0 {
		fmt.Fprintf(c.Out, "faults that could not be done when it was their turn: %s\n", counts(c.missed))
	}
	fmt.Fprintf(c.Out, "rule broken: %s\nseed %d\n", counts(c.rules), c.Seed)
}

// mustHaveTried fails a campaign in which too little happened: a server that answers
// nothing breaks no rule.
func (c *campaign) mustHaveTried() {
	minutes := max(c.Duration.Minutes(), 0.1)
	for o, least := range map[history.Outcome]float64{history.New: 1000, history.Seen: 2000} {
		if c.told[o] < int(least*minutes) {
			c.t.Errorf("%d items were told %v, want %d: too few to show anything", c.told[o], o, int(least*minutes))
		}
	}
	for _, f := range faults() {
		if c.possible[f.name] && c.faults[f.name] == 0 && f.name != "redis-net" && c.Duration >= 5*time.Minute {
			c.t.Errorf("no fault of the kind %s happened", f.name)
		}
	}
	all := 0
	for _, n := range c.faults {
		all += n
	}
	if least := int(10 * minutes); len(c.Faults) > 0 && all < least {
		c.t.Errorf("%d faults, want %d: too few to show anything", all, least)
	}
}
