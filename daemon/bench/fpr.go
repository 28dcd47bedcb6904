package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/lab"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
)

// falsePositives measures how many of 20 million new URLs, which differ only in digits from those
// in the filter, are mistaken for seen as the filter fills up and goes past its capacity.
func falsePositives(s settings) error {
	t := report.Table{{"capacity", "new URLs taken for seen", "interval of 95 %", "estimate that the daemon shows", "at half load", "at 125 %", "false negatives of 2 M", "bit-map"}}
	chart := plot.Chart{
		Title: "False positives as a filter fills up",
		Notes: "20 million new URLs, which differ in digits only; bars are intervals of 95 %",
		X:     plot.Axis{Label: "items, per cent of the capacity", From: 40}, Y: plot.Axis{Label: "share of new URLs taken for seen", Log: true},
	}
	expected := plot.Series{Name: "computed", Line: true}
	h, err := bloom.NewHeader(10_000_000, errorRate, 42, time.Now())
	if err != nil {
		return err
	}
	for per := uint64(48); per <= 127; per++ {
		expected.Points = append(expected.Points, plot.Point{X: float64(per), Y: h.Expected(h.Capacity / 100 * per)})
	}
	for _, capacity := range []uint64{2_000_000, 10_000_000, 150_000_000} {
		f, err := fillUp(s, capacity)
		if err != nil {
			return err
		}
		size := fmt.Sprintf("%d M", capacity/1_000_000)
		measured := plot.Series{Name: size + " items"}
		for _, l := range f.levels {
			// Side by side, so that the bars can be told apart.
			x := 100*l.load + 1.7*float64(len(chart.Series)-1)
			measured.Points = append(measured.Points, plot.Point{X: x, Y: l.rate, Low: l.low, High: l.high})
		}
		chart.Series = append(chart.Series, measured)
		half, full, past := f.levels[0], f.levels[2], f.levels[3]
		t.Row(size, short(full.rate), short(full.low)+" to "+short(full.high), short(full.estimate), short(half.rate), short(past.rate), fmt.Sprint(f.lost), fmt.Sprintf("%.2f MB a million items", f.bytes/float64(capacity)))
	}
	promised := plot.Series{Name: "promised at capacity", Line: true, Points: []plot.Point{{X: 48, Y: errorRate}, {X: 127, Y: errorRate}}}
	chart.Series = append(chart.Series, expected, promised)
	s.out.Runs = 0 // a single one, with its interval
	s.out.Table("fpr", fmt.Sprintf("URLs that differ in digits only; 20 million are asked for that are not in the filter, which is made for an error rate of %s and full but where a load is named", short(errorRate)), t)
	s.out.Chart("fpr", chart)
	return nil
}

// fprLoads are the loads at which a filter is measured.
var fprLoads = []float64{0.5, 0.75, 1, 1.25}

type fprLevel struct {
	load, rate, low, high, estimate float64
}

type filled struct {
	levels []fprLevel // one for each of fprLoads
	lost   int        // of 2 million items that are in the filter
	bytes  float64
}

func fillUp(s settings, capacity uint64) (filled, error) {
	const probes = 20_000_000
	m, err := newMap(capacity)
	if err != nil {
		return filled{}, err
	}
	defer m.Close()
	keys, fresh := make([]bloom.Hash, batch), make([]bool, batch)
	url := []byte("https://www.example.com/catalogue/item/000000000000/index.html")
	each := func(from, n uint64, do func()) {
		for at := from; at < from+n; at += batch {
			for i := range keys {
				putDecimal(url[digitsAt:digitsAt+12], at+uint64(i))
				keys[i] = bloom.Sum(42, url)
			}
			do()
		}
	}
	ask := func(from, n uint64) (seen int) {
		each(from, n, func() {
			m.Has(keys, fresh)
			for _, f := range fresh {
				if !f {
					seen++
				}
			}
		})
		return seen
	}
	f := filled{bytes: float64(m.Header().Bytes())}
	in := uint64(0)
	for _, load := range fprLoads {
		want := uint64(load * float64(capacity))
		each(in, want-in, func() { m.Add(keys, fresh) })
		in = want
		wrong := ask(2*capacity, probes)
		l := fprLevel{load: load, rate: float64(wrong) / probes, estimate: m.Fill().FPR}
		l.low, l.high = lab.Interval(wrong, probes)
		f.levels = append(f.levels, l)
		s.out.Run(fmt.Sprintf("FalsePositives/items=%d/load=%g", capacity, load), report.Value{N: l.rate, Unit: "false/op"})
	}
	const members = 2_000_000
	f.lost = members - ask(0, members)
	return f, nil
}

// putDecimal writes n with leading zeros.
func putDecimal(dst []byte, n uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i], n = byte('0'+n%10), n/10
	}
}

// short formats a rate for people, as in 0.0000726.
func short(rate float64) string {
	digits, _ := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 3, 64), 64) // it is a number
	return strconv.FormatFloat(digits, 'f', -1, 64)
}
