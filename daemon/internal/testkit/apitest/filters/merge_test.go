package filters_test

import (
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// embeddedRig is a server over the embedded store.
func embeddedRig(t *testing.T, dir string) (r *apitest.Rig, stop func()) {
	t.Helper()
	st := apitest.OpenEmbedded(t, dir)
	r = apitest.Over(t, st)
	return r, func() {
		t.Helper()
		r.HTTP.Close()
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// lines sends items, or asks for them, and returns how many lines were answered: the new ones, or those that say "new".
func lines(r *apitest.Rig, path, filter, site string, n int) int {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "https://%s.example/%d\n", site, i)
	}
	a := r.Do("POST", path+"?filter="+filter, text.String(), "Content-Type", "text/plain")
	if a.Status != 200 {
		r.T.Errorf("%s of %s: %d %s", path, filter, a.Status, a.Body)
	}
	return strings.Count(a.Body, "\n") - strings.Count(a.Body, "seen\n")
}

// Of filters that are made alike, one has the items of both after a merge, and after a restart;
// the other is as it was.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	for name, spec := range map[string]string{
		"fixed": `{"capacity":20000,"on_full":"warn"}`, "grown": `{"capacity":1000}`, "exact": `{"kind":"exact","canonical":"safe"}`,
		"short": `{"kind":"exact","digest":64}`, "timed": `{"kind":"timing","expire":86400}`,
	} {
		r, stop := embeddedRig(t, dir)
		other := name + "_other"
		for _, put := range [][2]string{{name, spec}, {other, `{"like":"` + name + `"}`}, {other, `{"like":"` + name + `"}`}} {
			if a := r.Put(put[0], put[1]); a.Status != 200 && a.Status != 201 {
				t.Fatalf("PUT %s: %d %s", put, a.Status, a.Body)
			}
		}
		lines(r, "/api/v1/filter", name, "a", 5000)
		lines(r, "/api/v1/filter", other, "b", 8000)
		for range 2 { // it can be repeated
			if a := r.Post("/api/v1/filters/"+name+"/merge?from="+other, ""); a.Status != 200 || apitest.Info(t, a).Name != name {
				t.Fatalf("merge %s: %d %s", name, a.Status, a.Body)
			}
		}
		for range 2 {
			if got := lines(r, "/api/v1/check", name, "a", 5000) + lines(r, "/api/v1/check", name, "b", 8000); got != 0 {
				t.Errorf("%s: %d of both are new", name, got)
			}
			if got := lines(r, "/api/v1/check", name, "c", 5000); got < 4900 { // 13,000 in a layer for 1000, of several
				t.Errorf("%s: %d of 5000 others are new", name, got)
			}
			if got := lines(r, "/api/v1/check", other, "a", 5000); got < 4990 {
				t.Errorf("%s: %d of 5000 are new, and none was added", other, got)
			}
			stop()
			r, stop = embeddedRig(t, dir)
		}
		stop()
	}
}

// What cannot be merged is refused with the reason, and nothing is changed.
func TestMergeRefused(t *testing.T) {
	r, stop := embeddedRig(t, t.TempDir())
	defer stop()
	for name, spec := range map[string]string{
		"a": `{"capacity":100000}`, "b": `{"capacity":100000}`, "large": `{"like":"a","capacity":500000}`, "fixed": `{"like":"a","on_full":"warn"}`,
		"tight": `{"capacity":1000,"on_full":"reject"}`, "jobs": `{"kind":"exact"}`, "uris": `{"like":"jobs","canonical":"safe"}`, "news": `{"kind":"timing","expire":60}`,
		"bf": `{"kind":"scaling"}`, "bf2": `{"kind":"scaling"}`, "short": `{"like":"jobs","digest":64}`,
	} {
		if like := strings.Contains(spec, "like"); like {
			r.Put("a", `{"capacity":100000}`)
			r.Put("jobs", `{"kind":"exact"}`)
		}
		if a := r.Put(name, spec); a.Status > 201 && name != "uris" {
			t.Fatalf("PUT %s: %d %s", name, a.Status, a.Body)
		}
	}
	r.Put("tight2", `{"like":"tight"}`)
	lines(r, "/api/v1/filter", "tight", "a", 700)
	lines(r, "/api/v1/filter", "tight2", "b", 700)
	for _, c := range []struct{ into, from, code, reason string }{
		{"a", "nope", "unknown_filter", "nope"},
		{"nope", "a", "unknown_filter", "nope"},
		{"a", "a", "filters_differ", "cannot be merged with itself"},
		{"a", "b", "filters_differ", "hashes items with another secret"},
		{"a", "jobs", "filters_differ", "is of the kind bloom, the other of the kind exact"},
		{"a", "large", "filters_differ", "is a bit-map for 100000 items at an error rate of 0.0001, the other for 500000"},
		{"a", "fixed", "filters_differ", "both grow or both not"},
		{"tight", "tight2", "filter_full", "on_full reject leaves room for 1000"},
		{"jobs", "news", "filters_differ", "is of the kind exact, the other of the kind timing"},
		{"jobs", "short", "filters_differ", "keeps 128 bits of the hash of an item, and the other has only the first 64"},
		{"bf", "bf2", "digests_not_supported", "is of the kind scaling, which has no digests"},
	} {
		a := r.Post("/api/v1/filters/"+c.into+"/merge?from="+c.from, "")
		if p := a.Problem(t); p.ErrorCode != c.code || !strings.Contains(p.Detail, c.reason) {
			t.Errorf("%s into %s: %d %s, want %s", c.from, c.into, a.Status, a.Body, c.reason)
		}
	}
	if a := r.Put("uris", `{"like":"jobs","canonical":"safe"}`); a.Problem(t).ErrorCode != "filters_differ" || !strings.Contains(a.Body, "normalizes URIs in another way") {
		t.Errorf("another rule for URIs: %d %s", a.Status, a.Body)
	}
	if a := r.Put("b", `{"like":"a"}`); a.Problem(t).ErrorCode != "filters_differ" || !strings.Contains(a.Body, "another secret") {
		t.Errorf("made with another secret: %d %s", a.Status, a.Body)
	}
	if a := r.Put("x", `{"like":"nope"}`); a.Problem(t).ErrorCode != "unknown_filter" {
		t.Errorf("like none: %d %s", a.Status, a.Body)
	}
	if got := lines(r, "/api/v1/check", "tight", "b", 700); got < 690 {
		t.Errorf("a refused merge has left %d of 700 new", got)
	}
	// What counts is what both have together: 750 items and 800, of which 750 are the same, fit 1,000.
	r.Put("tight3", `{"like":"tight"}`)
	lines(r, "/api/v1/filter", "tight", "a", 750)
	lines(r, "/api/v1/filter", "tight3", "a", 800)
	if a := r.Post("/api/v1/filters/tight/merge?from=tight3", ""); a.Status != 200 {
		t.Errorf("two filters with the same items: %d %s", a.Status, a.Body)
	}
	if got := lines(r, "/api/v1/check", "tight", "a", 800); got != 0 {
		t.Errorf("%d of 800 are new after the merge", got)
	}
}

// parts returns a whole export.
func parts(t *testing.T, r *apitest.Rig, name string) (head string, digests []string) {
	t.Helper()
	for i := range 256 {
		a := r.Do("GET", fmt.Sprintf("/api/v1/filters/%s/digests?part=%d", name, i), "")
		first, rest, _ := strings.Cut(a.Body, "\n")
		if a.Status != 200 || head != "" && first != head {
			t.Fatalf("part %d: %d %s", i, a.Status, a.Body)
		}
		head = first
		for line := range strings.Lines(rest) {
			if !strings.HasPrefix(line, fmt.Sprintf("%02x", i)) {
				t.Fatalf("part %d has %s", i, line)
			}
			digests = append(digests, line)
		}
	}
	return head, digests
}

// What one daemon exports, another imports: it knows the same items, until the same time.
func TestDigests(t *testing.T) {
	for spec, digits := range map[string]int{`{"kind":"exact","canonical":"safe"}`: 32, `{"kind":"exact","digest":64}`: 16, `{"kind":"timing","expire":3600}`: 32} {
		from, stop := embeddedRig(t, t.TempDir())
		from.Put("jobs", spec)
		lines(from, "/api/v1/filter", "jobs", "a", 3000)
		from.Post("/api/v1/reserve", `{"filter":"jobs","items":["reserved"],"lease":60}`)
		head, digests := parts(t, from, "jobs")
		stop()
		if len(digests) != 3000 {
			t.Fatalf("%s: %d digests", spec, len(digests))
		}
		dir := t.TempDir()
		to, stop := embeddedRig(t, dir)
		for _, list := range []string{strings.Join(digests[:2000], ""), strings.Join(digests[1000:], "")} {
			if a := to.Do("POST", "/api/v1/filters/copy/digests", head+"\n"+list, "Content-Type", "text/plain"); a.Status != 200 || !strings.HasPrefix(a.Body, `{"total":2000,"new":`) {
				t.Fatalf("%s: %d %s", spec, a.Status, a.Body)
			}
		}
		stop()
		to, stop = embeddedRig(t, dir)
		if got := lines(to, "/api/v1/check", "copy", "a", 3000); got != 0 {
			t.Errorf("%s: %d are new", spec, got)
		}
		if got := lines(to, "/api/v1/check", "copy", "b", 3000); got != 3000 {
			t.Errorf("%s: of others %d are new", spec, got)
		}
		to.Put("other", spec)
		to.Put("bits", "")
		for _, c := range []struct{ name, body, code string }{
			{"other", head + "\n" + digests[0], "filters_differ"},
			{"bits", head + "\n" + digests[0], "digests_not_supported"},
			{"copy", head + "\n" + digests[0] + "\n", "invalid_item"},
			{"copy", head + "\n" + digests[0][1:], "invalid_item"},
			{"copy", head + "\n" + digests[0][:digits] + " x", "invalid_item"},
			{"copy", strings.Replace(head, `format":1`, `format":2`, 1), "malformed_json"},
			{"copy", strings.Replace(head, `secret":"`, `secret":"00`, 1), "malformed_json"},
			{"new", strings.Replace(head, `"kind":"`, `"kind":"x`, 1), "invalid_filter"},
			{"new", strings.Replace(head, `"filter":`, `"size":`, 1), "unknown_field"},
		} {
			if a := to.Do("POST", "/api/v1/filters/"+c.name+"/digests", c.body, "Content-Type", "text/plain"); a.Problem(t).ErrorCode != c.code {
				t.Errorf("%s into %s: %d %s, want %s", spec, c.name, a.Status, a.Body, c.code)
			}
		}
		stop()
	}
}

// A filter that keeps 64 bits of each digest takes those of one that keeps all 128, from its export and by a merge.
func TestLongDigestsIntoShort(t *testing.T) {
	r, stop := embeddedRig(t, t.TempDir())
	defer stop()
	r.Put("long", `{"kind":"exact"}`)
	lines(r, "/api/v1/filter", "long", "a", 3000)
	head, digests := parts(t, r, "long")
	for name, take := range map[string]func() apitest.Answer{
		"merged": func() apitest.Answer { return r.Post("/api/v1/filters/merged/merge?from=long", "") },
		"imported": func() apitest.Answer {
			return r.Do("POST", "/api/v1/filters/imported/digests", head+"\n"+strings.Join(digests, ""), "Content-Type", "text/plain")
		},
	} {
		if a := r.Put(name, `{"like":"long","digest":64}`); a.Status != 201 || !strings.Contains(a.Body, `"digest":64`) {
			t.Fatalf("%s: %d %s", name, a.Status, a.Body)
		}
		lines(r, "/api/v1/filter", name, "b", 100)
		if a := take(); a.Status != 200 {
			t.Fatalf("%s: %d %s", name, a.Status, a.Body)
		}
		if a, b, c := lines(r, "/api/v1/check", name, "a", 3000), lines(r, "/api/v1/check", name, "b", 100), lines(r, "/api/v1/check", name, "c", 3000); a+b != 0 || c != 3000 {
			t.Errorf("%s: %d and %d of its items are new, and %d of 3000 others", name, a, b, c)
		}
		shortHead, short := parts(t, r, name)
		if len(short) != 3100 || len(short[0]) != 17 {
			t.Errorf("%s: %d digests, the first of which is %q", name, len(short), short[0])
		}
		a := r.Do("POST", "/api/v1/filters/long/digests", shortHead+"\n"+short[0], "Content-Type", "text/plain")
		if p := a.Problem(t); p.ErrorCode != "filters_differ" || !strings.Contains(p.Detail, "keeps 128 bits") {
			t.Errorf("back into the long one: %d %s", a.Status, a.Body)
		}
	}
	if a := r.Put("long", `{"digest":64}`); a.Problem(t).ErrorCode != "filter_conflict" || !strings.Contains(a.Body, "digest is 128, not 64") {
		t.Errorf("another digest for a filter that is there: %d %s", a.Status, a.Body)
	}
	if a := r.Put("long", `{"digest":128}`); a.Status != 200 || strings.Contains(a.Body, "digest") {
		t.Errorf("the digest that it has: %d %s", a.Status, a.Body)
	}
	if a := r.Put("new", `{"kind":"exact","digest":96}`); a.Problem(t).ErrorCode != "invalid_filter" || !strings.Contains(a.Body, "96: want 64 or 128") {
		t.Errorf("a digest of 96 bits: %d %s", a.Status, a.Body)
	}
	if a := r.Put("new", `{"digest":64}`); a.Problem(t).ErrorCode != "invalid_filter" || !strings.Contains(a.Body, "is for filters of the kind exact") {
		t.Errorf("a digest of the kind bloom: %d %s", a.Status, a.Body)
	}
}

// The export in docs/format.md is one, of the items that it says.
func TestExportOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## An export\n")
	_, text, _ = strings.Cut(text, "```\n")
	text, end, _ := strings.Cut(text, `{"digests":2,"crc32c":"`)
	if want := fmt.Sprintf("%08x\"}\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))); !strings.HasPrefix(end, want) {
		t.Errorf("the checksum is %.11q, want %q", end, want)
	}
	r, stop := embeddedRig(t, t.TempDir())
	defer stop()
	apitest.WantBody(t, r.Do("POST", "/api/v1/filters/jobs/digests", text, "Content-Type", "text/plain"), `{"total":2,"new":2}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter":"jobs","items":["a","b","c"]}`), `{"new":[false,false,true]}`+"\n")
	head, digests := parts(t, r, "jobs")
	if got := head + "\n" + strings.Join(digests, ""); got != text {
		t.Errorf("exported again:\n%s\nwant\n%s", got, text)
	}
}

// An imported item is seen for the time that it had left, rounded up to a second.
func TestDigestsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := apitest.Piped(t)
		head := `{"digests_format":1,"filter":"x","secret":"0123456789abcdef","kind":"timing","expire":3600}`
		at := func(left time.Duration) int64 { return time.Now().Add(left).UnixMilli() }
		a := r.Do("POST", "/api/v1/filters/news/digests", fmt.Sprintf("%s\n%032x %d\n%032x %d\n%032x %d\n%032x %d\n", head, 1, at(-time.Second), 4, math.MinInt64, 2, at(1500*time.Millisecond), 3, at(time.Minute)), "Content-Type", "text/plain")
		apitest.WantBody(t, a, `{"total":4,"new":2,"expired":2}`+"\n")
		for _, c := range []struct {
			pass time.Duration
			want int
		}{{0, 2}, {1900 * time.Millisecond, 2}, {100 * time.Millisecond, 1}, {58 * time.Second, 0}} {
			r.Store.Pass(c.pass)
			if got := apitest.Info(t, r.Do("GET", "/api/v1/filters/news", "")).Items; got != uint64(c.want) {
				t.Errorf("after another %v: %d items, want %d", c.pass, got, c.want)
			}
		}
	})
}
