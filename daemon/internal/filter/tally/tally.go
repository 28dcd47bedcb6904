// Package tally counts what became of the items of each filter, whatever protocol they came by,
// and shows filters to Prometheus.
//
// It knows nothing about requests: the fronts count those. No label holds an item, or anything
// else that clients choose freely.
package tally

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Tallies counts what became of the items of each filter, and describes the filters when it is
// scraped, so that the series of a filter end with it. It is safe for concurrent use.
type Tallies struct {
	engine *engine.Engine
	ops    map[batch.Op]prometheus.Observer // time in the store
	byLife sync.Map                         // *engine.Life to *tally

	items, checked, forgotten, reserved, settled, invalid, info, live, fill, estimate, capacity, rate, fpr, bytes, writeback, quarantined *prometheus.Desc
}

type tally struct {
	fresh, duplicates, checkedNew, checkedSeen, forgotten, invalid atomic.Uint64
	reservedNew, reservedDuplicates, reservedHeld                  atomic.Uint64
	committed, released, lost                                      atomic.Uint64
}

// New makes the Tallies of an engine and registers them.
func New(e *engine.Engine, registry prometheus.Registerer) *Tallies {
	store := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "urifilter_store_request_duration_seconds",
		Help:    "Time that the store took for a batch, by operation: add, has, forget, reserve, commit, release or near.",
		Buckets: prometheus.ExponentialBuckets(10e-6, 4, 11), // 10 us to 10 s
	}, []string{"op"})
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("urifilter_"+name, help, append([]string{"filter"}, labels...), nil)
	}
	t := &Tallies{
		engine: e,
		ops:    map[batch.Op]prometheus.Observer{},

		items:       desc("items_total", "Items of filter calls, and documents that near calls remember, by whether they were new or duplicate.", "result"),
		checked:     desc("checked_items_total", "Items of check calls, and documents of near calls, which remember nothing, by whether they were new or seen.", "result"),
		forgotten:   desc("forgotten_items_total", "Items that forget calls have made new again."),
		reserved:    desc("reserved_items_total", "Items of reserve calls, by whether they were new, duplicate, or reserved by others.", "result"),
		settled:     desc("settled_items_total", "Items of reservations, by whether they were committed, released, or lost to others before that.", "result"),
		invalid:     desc("invalid_items_total", "Items that filter and check calls skipped, as they asked, since they cannot be taken."),
		quarantined: desc("filter_quarantined", "Always 1: the filter's data are damaged, and it is not served."),

		info:      desc("filter_info", "Always 1; the labels say what the filter is.", "id", "kind"),
		live:      desc("filter_items", "Items of a timing filter that have not expired, as last counted, of an exact one, or of a bloom filter of fingerprints; documents of a simhash one."),
		fill:      desc("filter_fill_ratio", "Bits that are set among all, 0 to 1."),
		estimate:  desc("filter_items_estimate", "Distinct items remembered, estimated from the fill."),
		capacity:  desc("filter_capacity_items", "Items at which the error rate asked for still holds: of all layers of a filter that grows."),
		rate:      desc("filter_error_rate_ratio", "The false-positive ratio that was asked for."),
		fpr:       desc("filter_fpr_estimate_ratio", "Present false-positive ratio, estimated from the fill."),
		bytes:     desc("filter_bytes", "Size of the bit-map, of a timing or exact filter's table, or of a simhash filter's index; for exact filters and fingerprints in Redis, of the mirror."),
		writeback: desc("last_writeback_timestamp_seconds", "When the bit-map was last written to the archive; absent: never."),
	}
	for op, name := range map[batch.Op]string{
		batch.Add: "add", batch.Check: "has", batch.Forget: "forget", batch.Reserve: "reserve", batch.Commit: "commit", batch.Release: "release",
		batch.Near: "near", batch.Look: "near",
	} {
		t.ops[op] = store.WithLabelValues(name)
	}
	registry.MustRegister(store, t)
	return t
}

// Observe counts a batch; it is for [batch.Judge].
func (t *Tallies) Observe(op batch.Op, f *engine.Filter, took time.Duration, n batch.Counts, err error) {
	t.ops[op].Observe(took.Seconds())
	if err != nil {
		return
	}
	of, fresh, seen := t.of(f), uint64(n.New), uint64(n.All-n.New-n.Held)
	switch op {
	case batch.Add, batch.Near:
		of.fresh.Add(fresh)
		of.duplicates.Add(seen)
	case batch.Check, batch.Look:
		of.checkedNew.Add(fresh)
		of.checkedSeen.Add(seen)
	case batch.Forget:
		of.forgotten.Add(uint64(n.Forgotten))
	case batch.Reserve:
		of.reservedNew.Add(fresh)
		of.reservedHeld.Add(uint64(n.Held))
		of.reservedDuplicates.Add(seen)
	case batch.Commit:
		of.committed.Add(uint64(n.Committed))
		of.lost.Add(uint64(n.Lost))
	case batch.Release:
		of.released.Add(uint64(n.Released))
		of.lost.Add(uint64(n.Lost))
	}
}

func (t *Tallies) of(f *engine.Filter) *tally {
	if found, ok := t.byLife.Load(f.Life()); ok {
		return found.(*tally)
	}
	made, _ := t.byLife.LoadOrStore(f.Life(), new(tally))
	return made.(*tally)
}

// Counts are the items that calls have brought to a filter.
type Counts struct {
	New, Seen uint64 // of calls that remember them
	Checked   uint64 // of calls that do not
}

// Counts returns those of a filter since it was made, or the program began.
func (t *Tallies) Counts(f *engine.Filter) Counts {
	of := t.of(f)
	return Counts{
		New:     of.fresh.Load() + of.reservedNew.Load(),
		Seen:    of.duplicates.Load() + of.reservedDuplicates.Load() + of.reservedHeld.Load(),
		Checked: of.checkedNew.Load() + of.checkedSeen.Load(),
	}
}

// StoreTime returns how many batches the store has taken, and how long it took for all of them together.
func (t *Tallies) StoreTime() (batches uint64, total time.Duration) {
	counted := map[prometheus.Observer]bool{} // two operations may have one
	for _, o := range t.ops {
		var m dto.Metric
		if h, ok := o.(prometheus.Metric); !ok || counted[o] || h.Write(&m) != nil {
			continue
		}
		counted[o] = true
		batches += m.GetHistogram().GetSampleCount()
		total += time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Second))
	}
	return batches, total
}

// Skipped counts the items that a call left out, as it was asked to.
func (t *Tallies) Skipped(f *engine.Filter, skipped int) {
	if skipped > 0 {
		t.of(f).invalid.Add(uint64(skipped))
	}
}

// Describe implements [prometheus.Collector].
func (t *Tallies) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.items, t.checked, t.forgotten, t.reserved, t.settled, t.invalid, t.info, t.live, t.fill, t.estimate, t.capacity, t.rate, t.fpr, t.bytes, t.writeback, t.quarantined} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. It forgets filters that were dropped.
func (t *Tallies) Collect(ch chan<- prometheus.Metric) {
	live := map[*engine.Life]bool{}
	for _, f := range t.engine.Filters() {
		live[f.Life()] = true
		t.collect(ch, f)
	}
	named := map[string]bool{} // two folders may claim one name
	for _, q := range t.engine.Quarantined() {
		if !named[q.Name] {
			named[q.Name] = true
			ch <- prometheus.MustNewConstMetric(t.quarantined, prometheus.GaugeValue, 1, q.Name)
		}
	}
	t.byLife.Range(func(life, _ any) bool {
		if !live[life.(*engine.Life)] {
			t.byLife.Delete(life)
		}
		return true
	})
}

func (t *Tallies) collect(ch chan<- prometheus.Metric, f *engine.Filter) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, f.Name)
	}
	of, st := t.of(f), f.Stats()
	ch <- prometheus.MustNewConstMetric(t.items, prometheus.CounterValue, float64(of.fresh.Load()), f.Name, "new")
	ch <- prometheus.MustNewConstMetric(t.items, prometheus.CounterValue, float64(of.duplicates.Load()), f.Name, "duplicate")
	ch <- prometheus.MustNewConstMetric(t.checked, prometheus.CounterValue, float64(of.checkedNew.Load()), f.Name, "new")
	ch <- prometheus.MustNewConstMetric(t.checked, prometheus.CounterValue, float64(of.checkedSeen.Load()), f.Name, "seen")
	ch <- prometheus.MustNewConstMetric(t.invalid, prometheus.CounterValue, float64(of.invalid.Load()), f.Name)
	if _, err := f.Forgetful(); err == nil {
		ch <- prometheus.MustNewConstMetric(t.forgotten, prometheus.CounterValue, float64(of.forgotten.Load()), f.Name)
	}
	if _, err := f.Reserving(); err == nil {
		for _, c := range []struct {
			desc   *prometheus.Desc
			count  *atomic.Uint64
			result string
		}{
			{t.reserved, &of.reservedNew, "new"}, {t.reserved, &of.reservedDuplicates, "duplicate"}, {t.reserved, &of.reservedHeld, "reserved"},
			{t.settled, &of.committed, "committed"}, {t.settled, &of.released, "released"}, {t.settled, &of.lost, "lost"},
		} {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.count.Load()), f.Name, c.result)
		}
	}
	ch <- prometheus.MustNewConstMetric(t.info, prometheus.GaugeValue, 1, f.Name, strconv.Itoa(f.ID), f.Kind)
	gauge(t.bytes, float64(st.Bytes))
	_, bits := f.Set.(engine.BitMap)
	if bound := f.Bound(); bits || bound.Items > 0 {
		gauge(t.capacity, float64(f.Capacity()))
		gauge(t.rate, bound.ErrorRate)
	}
	if !bits {
		gauge(t.live, float64(st.Items))
		return
	}
	gauge(t.fill, st.Fill)
	gauge(t.estimate, float64(st.Items))
	gauge(t.fpr, st.FPR)
	if !st.LastWriteback.IsZero() {
		gauge(t.writeback, float64(st.LastWriteback.UnixMilli())/1000)
	}
}
