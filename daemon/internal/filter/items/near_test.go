package items

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNearRequest(t *testing.T) {
	var r NearRequest
	body := ` { "documents" : [ {"text":"plain","id":"a\u0062"} , {"id":"é","text":"\ttab \ud83d\ude00 \"q\""},{"id":"c","text":""}],
		"filter":7, "distance":null, "limit": 5e0, "remember":false, "access_token":"secret"} `
	if err := r.Decode([]byte(strings.ReplaceAll(body, "\ttab", `\ttab`)), NearLimits{Documents: 3, TextBytes: 20, IDBytes: 2}); err != nil {
		t.Fatal(err)
	}
	want := []Document{{"ab", "plain"}, {"é", "\ttab 😀 \"q\""}, {"c", ""}}
	if !slices.Equal(r.Documents, want) || r.Filter != "7" || r.Token != "secret" || r.Distance != -1 || r.Limit != 5 || r.Remember {
		t.Errorf("%+v", r)
	}
	if err := r.Decode([]byte(`{"filter_typeid":"pages","documents":[]}`), NearLimits{}); err != nil || r.Filter != "pages" || !r.Remember || r.Limit != -1 || len(r.Documents) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzNearRequest checks that an accepted request is what encoding/json reads, and that an error
// leaves the request empty.
func FuzzNearRequest(f *testing.F) {
	for _, body := range []string{
		`{"filter":"p","documents":[{"id":"a","text":"b"},{"text":"\u00e9\n","id":"c"}],"limit":3}`,
		`{"documents":[{"id":"a","text":"\\\"\/\b"}],"filter_typeid":1,"distance":2,"remember":true}`,
		`{"filter":"p","documents":[{"id":"a","text":"b","text":"c"}]}`, `{"filter":"p","documents":[{}]}`, `[]`, `{`, "{\"filter\":\"p\",\"documents\":[{\"id\":\"\xff\",\"text\":\"\"}]}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r NearRequest
		if err := r.Decode(body, NearLimits{Documents: 10, TextBytes: 1000, IDBytes: 100}); err != nil {
			var bad *Error
			if !errors.As(err, &bad) || len(r.Documents) > 0 || r.Filter != "" {
				t.Fatalf("%v leaves %+v", err, r)
			}
			return
		}
		var want struct {
			Documents []Document
			Distance  *float64
			Limit     *float64
			Remember  *bool
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q is taken: %v", body, err)
		}
		if !slices.Equal(r.Documents, want.Documents) && len(r.Documents)+len(want.Documents) > 0 {
			t.Fatalf("%q: %q, want %q", body, r.Documents, want.Documents)
		}
		number := func(got int, want *float64) bool {
			return want == nil && got == -1 || want != nil && float64(got) == *want
		}
		if !number(r.Distance, want.Distance) || !number(r.Limit, want.Limit) || r.Remember != (want.Remember == nil || *want.Remember) {
			t.Fatalf("%q: %+v", body, r)
		}
		ids := map[string]bool{}
		for _, d := range r.Documents {
			if d.ID == "" || ids[d.ID] || !utf8.ValidString(d.ID+d.Text) {
				t.Fatalf("%q: document %q is taken", body, d)
			}
			ids[d.ID] = true
		}
	})
}
