package filters

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
)

// described is what daemons answer about filters of each kind, and of three that this program does
// not know: two with a capacity count their items, and one without has a bit-map.
var described = map[string]string{
	"bloom": `{"id":1,"name":"uri","kind":"bloom","capacity":1000,"error_rate":0.01,"on_full":"grow","items_estimate":1500,"fill_ratio":0.25,"fpr_estimate":0.0012,` +
		`"bytes":4096,"generation":2,"last_writeback":"2026-01-02T03:04:05Z","layers":[` +
		`{"capacity":1000,"error_rate":0.005,"items_estimate":1000,"fill_ratio":0.5,"fpr_estimate":0.001,"bytes":2048},` +
		`{"capacity":2000,"error_rate":0.0025,"items_estimate":500,"fill_ratio":0.1,"fpr_estimate":0.0001,"bytes":2048}],"canonical":"crawl","canonical_drop":"utm"}`,
	"empty":   `{"id":2,"name":"ip","kind":"bloom","capacity":1000,"error_rate":0.0001,"on_full":"warn","items_estimate":0,"fill_ratio":0,"fpr_estimate":0,"bytes":4096,"generation":1,"last_writeback":null}`,
	"timing":  `{"id":3,"name":"news","kind":"timing","expire":3600,"items":12,"bytes":300,"generation":1,"canonical":"safe"}`,
	"by call": `{"id":4,"name":"calls","kind":"timing","expire":null,"items":0,"bytes":0,"generation":1}`,
	"exact":   `{"id":5,"name":"jobs","kind":"exact","expire":null,"items":7,"bytes":126,"generation":3,"store":"mysql"}`,
	"simhash": `{"id":6,"name":"texts","kind":"simhash","expire":null,"items":9,"bytes":450,"generation":1,"distance":3,"feature_hash":"xxh3"}`,
	"cuckoo":  `{"id":7,"name":"nest","kind":"cuckoo","capacity":4000,"expire":null,"items":1000,"bytes":8192,"generation":1,"buckets":16}`,
	"rated":   `{"id":8,"name":"fuse","kind":"fuse","capacity":100,"error_rate":0.02,"expire":null,"items":0,"bytes":64,"generation":1}`,
	"bits":    `{"id":9,"name":"free","kind":"scalable","capacity":0,"error_rate":0.02,"on_full":"","items_estimate":5,"fill_ratio":0.5,"fpr_estimate":0.01,"bytes":64,"generation":1,"last_writeback":null}`,
}

func describedAs(t *testing.T, name string) (f client.FilterInfo) {
	t.Helper()
	if err := json.Unmarshal([]byte(described[name]), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// A filter is shown with what the daemon says about it, whatever its kind is.
func TestFiltersOfEachKindAreShown(t *testing.T) {
	names := []string{"bloom", "empty", "timing", "by call", "exact", "simhash", "cuckoo", "rated", "bits"}
	var list []client.FilterInfo
	for _, name := range names {
		list = append(list, describedAs(t, name))
	}
	var b strings.Builder
	if err := writeTable(&b, list); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		b.WriteString("\n" + name + ": " + createdText(list[i]) + "\n")
		if err := writeFilter(&b, list[i]); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Join("testdata", "shown.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
