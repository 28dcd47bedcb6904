package filters

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

func writeTable(w io.Writer, list []client.FilterInfo) error {
	rows := [][]string{{"ID", "NAME", "KIND", "ITEMS", "CAPACITY", "FULL", "ERROR ASKED", "ERROR NOW", "SIZE"}}
	timed := false
	for _, f := range list {
		timed = timed || configs.Expires(f.Kind)
	}
	if timed {
		rows[0] = append(rows[0], "EXPIRE")
	}
	for _, f := range list {
		if f.Capacity == 0 {
			row := []string{fmt.Sprint(f.ID), f.Name, f.Kind, human.Count(int64(f.Items)), "-", "-", "-", "-", human.Bytes(int64(f.Bytes))}
			if timed {
				row = append(row, expireText(f))
			}
			rows = append(rows, row)
			continue
		}
		rows = append(rows, []string{fmt.Sprint(f.ID), f.Name, f.Kind, human.Count(int64(f.ItemsEstimate)), human.Count(int64(capacity(f))),
			fullness(f), fmt.Sprintf("%g", f.ErrorRate), fmt.Sprintf("%.2g", f.FPREstimate), human.Bytes(int64(f.Bytes))})
	}
	return human.Table(w, rows, map[int]bool{1: true, 2: true})
}

func writeFilter(w io.Writer, f client.FilterInfo) error {
	writeback := "never"
	if f.LastWriteback != nil {
		writeback = f.LastWriteback.Format(time.RFC3339)
	}
	if f.Capacity == 0 {
		rows := [][]string{{"name", f.Name}, {"id", fmt.Sprint(f.ID)}, {"kind", f.Kind}}
		switch {
		case configs.Expires(f.Kind):
			rows = append(rows, []string{"items", human.Count(int64(f.Items)) + " that have not expired"}, []string{"expire", expiry(f)})
		case configs.TakesTexts(f.Kind):
			rows = append(rows, []string{"documents", human.Count(int64(f.Items))}, []string{"distance", fmt.Sprintf("up to %d of 64 bits", f.Distance)},
				[]string{"feature hash", f.FeatureHash})
		default:
			rows = append(rows, []string{"items", human.Count(int64(f.Items))})
		}
		for _, key := range slices.Sorted(maps.Keys(f.More)) {
			rows = append(rows, []string{key, fmt.Sprint(f.More[key])})
		}
		rows = append(append(rows, storeRows(f)...), canonicalRows(f)...)
		rows = append(rows, []string{"size", human.Bytes(int64(f.Bytes))}, []string{"generation", fmt.Sprint(f.Generation)})
		return human.Table(w, rows, map[int]bool{0: true, 1: true})
	}
	rows := [][]string{
		{"name", f.Name},
		{"id", fmt.Sprint(f.ID)},
		{"kind", f.Kind},
		{"items", "about " + human.Count(int64(f.ItemsEstimate))},
		{"capacity", capacityText(f)},
		{"error rate", fmt.Sprintf("%g asked, about %.2g now", f.ErrorRate, f.FPREstimate)},
		{"bits set", human.Percent(f.FillRatio)},
		{"size", human.Bytes(int64(f.Bytes))},
		{"generation", fmt.Sprint(f.Generation)},
		{"last writeback", writeback},
	}
	return human.Table(w, append(rows, canonicalRows(f)...), map[int]bool{0: true, 1: true})
}

// storeRows says where a filter is kept, if it is not in the daemon's own store.
func storeRows(f client.FilterInfo) [][]string {
	if f.Store == "" {
		return nil
	}
	return [][]string{{"store", f.Store}}
}

// capacityText says how much of the capacity is used, and what happens beyond it.
func capacityText(f client.FilterInfo) string {
	text := fmt.Sprintf("%s (%s full, %s beyond)", human.Count(int64(capacity(f))), fullness(f), f.OnFull)
	if len(f.Layers) > 1 {
		text += fmt.Sprintf("; made for %s, %d layers", human.Count(int64(f.Capacity)), len(f.Layers))
	}
	return text
}

// canonicalRows says how URIs are normalized, if they are.
func canonicalRows(f client.FilterInfo) (rows [][]string) {
	if f.Canonical != "" {
		rows = append(rows, []string{"canonical", f.Canonical})
	}
	if f.CanonicalDrop != "" {
		rows = append(rows, []string{"left out", f.CanonicalDrop})
	}
	return rows
}

// expireText is the expiry time of a filter whose items expire.
func expireText(f client.FilterInfo) string {
	if !configs.Expires(f.Kind) {
		return "-"
	}
	if f.Expire == 0 {
		return "by call"
	}
	return human.Duration(time.Duration(f.Expire * float64(time.Second)).Round(time.Millisecond))
}

// expiry says when the items of a timing filter expire.
func expiry(f client.FilterInfo) string {
	if f.Expire == 0 {
		return "as every call says"
	}
	return expireText(f) + " after they were accepted, unless the call says otherwise"
}

// capacity is how many items the filter is made for, with its present layers; 0: any number.
func capacity(f client.FilterInfo) uint64 {
	all := uint64(0)
	for _, l := range f.Layers {
		all += l.Capacity
	}
	return max(all, f.Capacity)
}

// fullness is the share of the capacity that is used.
func fullness(f client.FilterInfo) string {
	if f.Capacity == 0 {
		return "-"
	}
	return human.Percent(float64(f.ItemsEstimate) / float64(capacity(f)))
}
