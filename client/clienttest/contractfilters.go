package clienttest

import (
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

func testFilters(t *testing.T, c *client.Client) {
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	before, err := c.Filters(t.Context())
	if err != nil || len(before) < 5 || before[0].Name != "uri" || before[0].ID != 1 || before[4].Name != "uri_parse" {
		t.Fatalf("default filters: got %+v, %v", before, err)
	}
	spec := client.FilterSpec{Capacity: 5000, ErrorRate: 0.01, OnFull: "reject"}
	for i, want := range []bool{true, false} {
		info, created, err := c.CreateFilter(t.Context(), "mine.v2", spec)
		if err != nil || created != want || info.Capacity != 5000 || info.ErrorRate != 0.01 || info.OnFull != "reject" || info.ID < 1000 || info.Kind != "bloom" {
			t.Fatalf("create %d: got %+v, %v, %v", i, info, created, err)
		}
	}
	_, _, err = c.CreateFilter(t.Context(), "mine.v2", client.FilterSpec{Capacity: 1})
	wantRefusal(t, "other parameters", err, 409, "filter_conflict")
	if _, err := c.Filter(t.Context(), "mine.v2", []string{"a"}); err != nil {
		t.Error(err)
	}
	list, err := c.Filters(t.Context())
	last := list[len(list)-1]
	if err != nil || len(list) != len(before)+1 || last.Name != "mine.v2" || last.ItemsEstimate != 1 || last.Generation != 1 || last.Bytes == 0 || last.LastWriteback != nil {
		t.Errorf("list: got %+v, %v", list, err)
	}
	if info, err := c.ClearFilter(t.Context(), "mine.v2"); err != nil || info.Generation != 2 || info.ID != last.ID || info.ItemsEstimate != 0 {
		t.Errorf("clear: got %+v, %v", info, err)
	}
	if err := c.DropFilter(t.Context(), "mine.v2"); err != nil {
		t.Errorf("drop: %v", err)
	}
	_, err = c.GetFilter(t.Context(), "mine.v2")
	wantRefusal(t, "get after drop", err, 404, "unknown_filter")
	wantRefusal(t, "drop after drop", c.DropFilter(t.Context(), "mine.v2"), 404, "unknown_filter")
}

func testTimingFilters(t *testing.T, c *client.Client) {
	if _, created, err := c.CreateFilter(t.Context(), "hourly", client.FilterSpec{Kind: "timing", Expire: 3600}); err != nil || !created {
		t.Fatal(created, err)
	}
	got, err := c.Filter(t.Context(), "hourly", []string{"a", "a"})
	if err != nil || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
	info, err := c.GetFilter(t.Context(), "hourly")
	if err != nil || info.Kind != "timing" || info.Expire != 3600 || info.Items != 1 || info.Capacity != 0 || info.ErrorRate != 0 {
		t.Errorf("got %+v, %v", info, err)
	}
}

func testForget(t *testing.T, c *client.Client) {
	hour := client.Expire(time.Hour)
	for kind, options := range map[string][]client.CallOption{"exact": nil, "timing": {hour}} {
		name := newContractFilter(t, c, "forgets-"+kind, kind)
		if _, err := c.Filter(t.Context(), name, []string{"a", "b", "c"}, options...); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Forget(t.Context(), name, []string{"a", "c", "a", "d"}); n != 2 || err != nil {
			t.Errorf("%s: %d are forgotten, %v, want the 2 that were seen", kind, n, err)
		}
		if n, err := client.ForgetJSON(t.Context(), c, name, []any{"a", 1}); n != 0 || err != nil {
			t.Errorf("%s: %d are forgotten, %v, want none", kind, n, err)
		}
		for _, want := range []string{"a c", ""} {
			if got, err := c.Filter(t.Context(), name, []string{"a", "b", "c"}, options...); err != nil || strings.Join(got, " ") != want {
				t.Errorf("%s: got %q, %v, want %q", kind, got, err, want)
			}
		}
		_, err := c.Forget(t.Context(), name, []string{"a", ""})
		if e := wantRefusal(t, "an empty item", err, 400, "empty_item"); e.Index == nil || *e.Index != 1 {
			t.Errorf("index %v", e.Index)
		}
		if isNew, err := c.Check(t.Context(), name, []string{"a"}); err != nil || isNew[0] {
			t.Errorf("an item of a refused list is forgotten: %v, %v", isNew, err)
		}
		var skipped client.InvalidItems
		if n, err := c.Forget(t.Context(), name, []string{"", "a"}, client.SkipInvalid(&skipped)); n != 1 || err != nil || skipped.Invalid != 1 || len(skipped.Items) != 1 || skipped.Items[0].Index != 0 {
			t.Errorf("%s: %d are forgotten, %+v are skipped, %v; want 1 and item 0", kind, n, skipped, err)
		}
	}
	_, err := c.Forget(t.Context(), "uri", []string{"a"})
	wantRefusal(t, "a bloom filter", err, 422, "forget_not_supported")
	_, err = c.Forget(t.Context(), "none such", []string{"a"})
	wantRefusal(t, "no filter", err, 404, "unknown_filter")
}

func testExactFilters(t *testing.T, c *client.Client) {
	exact := newContractFilter(t, c, "jobs", "exact")
	for want := 2; want >= 0; want -= 2 {
		if got, err := c.Filter(t.Context(), exact, []string{"a", "b", "a"}); err != nil || len(got) != want {
			t.Errorf("got %q, %v, want %d", got, err, want)
		}
	}
	_, err := c.Filter(t.Context(), exact, []string{"x"}, client.Expire(time.Second))
	wantRefusal(t, "expire", err, 422, "expire_not_supported")
	info, err := c.GetFilter(t.Context(), exact)
	if err != nil || info.Kind != "exact" || info.Items != 2 || info.Capacity != 0 || info.Generation != 1 {
		t.Errorf("got %+v, %v", info, err)
	}
}
