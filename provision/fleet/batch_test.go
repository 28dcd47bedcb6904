package fleet

import (
	"fmt"
	"strings"
	"testing"
)

func TestBatchSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		batch     string
		all, want int
	}{{"", 9, 9}, {"", 0, 1}, {"3", 9, 3}, {"25%", 9, 2}, {"25%", 3, 1}, {"100%", 7, 7}, {"30", 4, 30}} {
		if got, err := batchSize(c.batch, c.all); err != nil || got != c.want {
			t.Errorf("%q of %d: got %d, %v, want %d", c.batch, c.all, got, err, c.want)
		}
	}
	for _, bad := range []string{"0", "-1", "x", "%", "0%", "101%", "2.5", "1 0"} {
		if _, err := batchSize(bad, 9); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestWaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jobs, canary, batch int
		want                string
	}{
		{5, 1, 2, "canary 1, batch 1 of 2 2, batch 2 of 2 2"},
		{1, 1, 1, "canary 1"},
		{3, 0, 3, "batch 1 of 1 3"},
		{2, 5, 1, "canary 2"},
		{4, 1, 2, "canary 1, batch 1 of 2 2, batch 2 of 2 1"},
	} {
		var got []string
		for _, w := range waves(make([]task, c.jobs), c.canary, c.batch) {
			got = append(got, fmt.Sprintf("%s %d", w.name, len(w.jobs)))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
