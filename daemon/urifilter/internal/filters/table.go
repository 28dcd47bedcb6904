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
		full, asked, now, made := "-", "-", "-", "-"
		if f.Capacity != 0 {
			made, full = human.Count(int64(capacity(f))), fullness(f)
		}
		if f.ErrorRate != 0 {
			asked = fmt.Sprintf("%g", f.ErrorRate)
		}
		if f.HasBitMap() {
			now = fmt.Sprintf("%.2g", f.FPREstimate)
		}
		row := []string{fmt.Sprint(f.ID), f.Name, f.Kind, human.Count(int64(items(f))), made, full, asked, now, human.Bytes(int64(f.Bytes))}
		if timed && (configs.Expires(f.Kind) || !f.HasBitMap()) {
			row = append(row, expireText(f))
		}
		rows = append(rows, row)
	}
	return human.Table(w, rows, map[int]bool{1: true, 2: true})
}

func writeFilter(w io.Writer, f client.FilterInfo) error {
	rows := append([][]string{{"name", f.Name}, {"id", fmt.Sprint(f.ID)}, {"kind", f.Kind}}, itemRows(f)...)
	if f.Capacity != 0 {
		rows = append(rows, []string{"capacity", capacityText(f)})
	}
	switch {
	case f.HasBitMap():
		rows = append(rows, []string{"error rate", fmt.Sprintf("%g asked, about %.2g now", f.ErrorRate, f.FPREstimate)},
			[]string{"bits set", human.Percent(f.FillRatio)})
	case f.ErrorRate != 0:
		rows = append(rows, []string{"error rate", fmt.Sprintf("%g asked", f.ErrorRate)})
	}
	for _, key := range slices.Sorted(maps.Keys(f.More)) {
		rows = append(rows, []string{key, fmt.Sprint(f.More[key])})
	}
	rows = append(rows, storeRows(f)...)
	size := [][]string{{"size", human.Bytes(int64(f.Bytes))}, {"generation", fmt.Sprint(f.Generation)}}
	if f.HasBitMap() {
		writeback := "never"
		if f.LastWriteback != nil {
			writeback = f.LastWriteback.Format(time.RFC3339)
		}
		rows = append(append(append(rows, size...), []string{"last writeback", writeback}), canonicalRows(f)...)
	} else {
		rows = append(append(rows, canonicalRows(f)...), size...)
	}
	return human.Table(w, rows, map[int]bool{0: true, 1: true})
}

// itemRows says what the filter remembers, and for how long.
func itemRows(f client.FilterInfo) [][]string {
	count := human.Count(int64(items(f)))
	if f.HasBitMap() {
		count = "about " + count
	}
	switch {
	case configs.Expires(f.Kind):
		return [][]string{{"items", count + " that have not expired"}, {"expire", expiry(f)}}
	case configs.TakesTexts(f.Kind):
		return [][]string{{"documents", count}, {"distance", fmt.Sprintf("up to %d of 64 bits", f.Distance)}, {"feature hash", f.FeatureHash}}
	case f.Layout != "":
		return [][]string{{"items", count}, {"layout", f.Layout}}
	case f.Digest != 0:
		return [][]string{{"items", count}, {"digest", fmt.Sprintf("%d bits of each", f.Digest)}}
	}
	return [][]string{{"items", count}}
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
	text := human.Count(int64(capacity(f))) + " (" + fullness(f) + " full"
	if f.OnFull != "" {
		text += ", " + f.OnFull + " beyond"
	}
	text += ")"
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

// createdText says what was made.
func createdText(f client.FilterInfo) string {
	text := fmt.Sprintf("%s: created, id %d", f.Name, f.ID)
	if configs.Expires(f.Kind) {
		text += ", items expire " + expiry(f)
	}
	if f.Capacity == 0 {
		return text
	}
	text += ", for " + human.Count(int64(f.Capacity)) + " items"
	if f.ErrorRate != 0 {
		text += fmt.Sprintf(" at an error rate of %g", f.ErrorRate)
	}
	return text + ", " + human.Bytes(int64(f.Bytes))
}

// items is how many items the filter has, by its count or its estimate: no filter has both.
func items(f client.FilterInfo) uint64 { return max(f.Items, f.ItemsEstimate) }

// capacity is how many items the filter is made for, with its present layers; 0: any number.
func capacity(f client.FilterInfo) uint64 {
	all := uint64(0)
	for _, l := range f.Layers {
		all += l.Capacity
	}
	return max(all, f.Capacity)
}

// fullness is the share of the capacity, which is not 0, that is used.
func fullness(f client.FilterInfo) string {
	return human.Percent(float64(items(f)) / float64(capacity(f)))
}
