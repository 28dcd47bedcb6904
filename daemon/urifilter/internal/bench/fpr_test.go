package bench

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/rates"
)

func TestTableOfRates(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "a.svg")
	code, out, errOut := ask(t, "fpr", "--items", "1000", "--asked", "1000", "--plot", picture)
	if code != 0 || strings.Count(out, "\n") != 2*33+1 || !strings.HasPrefix(out, "computed\n") || !strings.Contains(out, "\nmeasured\n") {
		t.Fatalf("got %d, %s, %s", code, out, errOut)
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "k 8 in one block") {
		t.Errorf("picture: %v", err)
	}
	code, out, _ = ask(t, "fpr", "--items", "1000", "--asked", "1000", "--csv")
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); code != 0 || err != nil || len(all) != 1+31*9 {
		t.Errorf("csv: got %d, %d rows, %v", code, len(all), err)
	}
	code, out, _ = ask(t, "fpr", "--items", "1000", "--asked", "1000", "--json")
	var rows []rates.Row
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil || len(rows) != 31 || rows[6].Bits != 8 || rows[6].BestK != 6 {
		t.Errorf("json: got %d, %d rows, %v", code, len(rows), err)
	}
}

func TestRatesOfOneFilter(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "a.png")
	args := []string{"fpr", "--capacity", "100k", "--error-rate", "0.01", "--asked", "20000"}
	code, out, errOut := ask(t, append(args, "--json", "--plot", picture)...)
	var fill rates.Fill
	if err := json.Unmarshal([]byte(out), &fill); code != 0 || err != nil || len(fill.Levels) != 4 || fill.Capacity != 100_000 || fill.Levels[3].Items != 150_000 {
		t.Fatalf("got %d, %+v, %v, %s", code, fill, err, errOut)
	}
	if info, err := os.Stat(picture); err != nil || info.Size() < 1000 {
		t.Errorf("picture: %v", err)
	}
	code, out, _ = ask(t, args...)
	if code != 0 || !strings.HasPrefix(out, "capacity 100,000, error rate 0.01: k 8, ") || !strings.Contains(out, "\n100 %  100,000  ") {
		t.Errorf("got %d, %s", code, out)
	}
	code, out, _ = ask(t, append(args, "--csv")...)
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); code != 0 || err != nil || len(all) != 5 {
		t.Errorf("csv: got %d, %d rows, %v", code, len(all), err)
	}
}

// A level at which no new item was taken for seen has its point, too.
func TestNoFalsePositivesHavePoints(t *testing.T) {
	level := func(load float64, seen int) rates.Level {
		return rates.Level{Load: load, Cell: rates.Cell{Computed: 1e-6, Measured: float64(seen) / 1e5, High: 4e-5, Seen: seen, Asked: 100_000}}
	}
	c := fillChart(rates.Fill{Capacity: 1000, ErrorRate: 0.01, Levels: []rates.Level{level(0.25, 0), level(1, 3)}})
	if points := c.Series[1].Points; len(points) != 2 || points[0].Y != 0 || points[0].High != 4e-5 || !strings.Contains(c.Notes, "lower edge") {
		t.Errorf("%+v, %q", points, c.Notes)
	}
}

func TestRatesRefuse(t *testing.T) {
	for want, args := range map[string][]string{
		"--error-rate: is for one filter":                  {"--error-rate", "0.1"},
		"--items: is for the table":                        {"--capacity", "1M", "--items", "5000"},
		"--items 10: want 1000":                            {"--items", "10"},
		"--asked 10: want 1000":                            {"--asked", "10"},
		"want a whole number of items from 1":              {"--capacity", "-1"},
		"--error-rate 0.9: want 1e-06 to 0.5":              {"--capacity", "1M", "--error-rate", "0.9"},
		"[json csv] are set none of the others can be":     {"--json", "--csv"},
		"plot \"rates\": want a name that ends in .png or": {"--plot", "rates"},
	} {
		if code, _, errOut := ask(t, append([]string{"fpr"}, args...)...); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%q: got %d, %q, want %q", args, code, errOut, want)
		}
	}
}
