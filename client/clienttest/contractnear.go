package clienttest

import (
	"fmt"
	"testing"

	"github.com/cr-clawer/urifilter/client"
)

func testNear(t *testing.T, c *client.Client) {
	pages := newContractFilter(t, c, "pages", "simhash")
	fox, dog := "The quick brown fox jumps over the lazy dog, twice.", "Der Hund döst \"im\" Schatten\n还有一只猫。"
	near := func(want string, documents []client.Document, options ...client.NearOption) {
		t.Helper()
		all, err := c.Near(t.Context(), pages, documents, options...)
		got := ""
		for i, d := range all {
			got += fmt.Sprintf("%s %v %v %v;", d.ID, d.New, d.Near, d.More)
			if len(d.Fingerprint) != 16 || d.ID != documents[i].ID {
				t.Errorf("document %d: %+v", i, d)
			}
		}
		if err != nil || got != want {
			t.Errorf("got  %s %v\nwant %s", got, err, want)
		}
	}
	two := []client.Document{{ID: "b", Text: fox}, {ID: "a", Text: "THE quick brown fox -- jumps over the lazy dog; twice!"}}
	near("b true [] false;a true [] false;", two, client.NearLook())
	near("b true [] false;a false [{b 0}] false;", two)
	near("b true [{a 0}] false;a false [{b 0}] false;", two) // as if the answer was lost
	near("é\"1 true [] false;", []client.Document{{ID: "é\"1", Text: dog}})
	near("c false [{a 0} {b 0}] false;d false [{é\"1 0}] false;", []client.Document{{ID: "c", Text: fox}, {ID: "d", Text: dog}}, client.NearLook(), client.NearDistance(0))
	near("c false [{b 0}] true;", []client.Document{{ID: "c", Text: fox}}, client.NearLimit(1))
	near("", nil)

	refused := func(code string, status int, documents []client.Document, options ...client.NearOption) *client.Error {
		t.Helper()
		_, err := c.Near(t.Context(), pages, append([]client.Document{{ID: "new", Text: "Something else, never seen before"}}, documents...), options...)
		return wantRefusal(t, code, err, status, code)
	}
	for code, d := range map[string]client.Document{
		"id_invalid": {Text: fox}, "text_too_short": {ID: "e", Text: "- a,b -"}, "duplicate_id": {ID: "new", Text: fox},
	} {
		if e := refused(code, 400, []client.Document{d}); e.Index == nil || *e.Index != 1 {
			t.Errorf("%s: index %v", code, e.Index)
		}
	}
	refused("distance_invalid", 422, nil, client.NearDistance(4))
	refused("limit_invalid", 422, nil, client.NearLimit(101))
	near("e true [] false;", []client.Document{{ID: "e", Text: "Something else, never seen before"}}, client.NearLook())

	_, err := c.Near(t.Context(), "uri", two)
	wantRefusal(t, "a bloom filter", err, 422, "near_not_supported")
	_, err = c.Filter(t.Context(), pages, []string{"a"})
	wantRefusal(t, "filter", err, 422, "items_not_supported")
	_, err = c.Check(t.Context(), pages, []string{"a"})
	wantRefusal(t, "check", err, 422, "items_not_supported")
	_, err = c.Forget(t.Context(), pages, []string{"a"})
	wantRefusal(t, "forget", err, 422, "items_not_supported")
	info, err := c.GetFilter(t.Context(), pages)
	if err != nil || info.Kind != "simhash" || info.Distance != 3 || info.FeatureHash != "xxh3" || info.Items != 4 || info.Capacity != 0 {
		t.Errorf("got %+v, %v", info, err)
	}
}
