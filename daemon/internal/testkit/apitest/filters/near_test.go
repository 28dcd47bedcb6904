package filters_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

const fox = "the quick brown fox jumps over the lazy dog and runs away into the dark green forest behind the old mill"

// Near documents are found over HTTP, in the same call and after the store is reopened; a call
// that only looks changes nothing, and a repeated call gets the same answer.
func TestNear(t *testing.T) {
	dir := t.TempDir()
	st := apitest.OpenEmbedded(t, dir)
	r := apitest.Over(t, st)
	if a := r.Put("pages", `{"kind":"simhash","feature_hash":"md5"}`); a.Status != 201 || !strings.Contains(a.Body, `"distance":3,"feature_hash":"md5","items":0,`) {
		t.Fatal(a)
	}
	post := func(documents, more string) apitest.Answer {
		return r.Post("/api/v1/near", `{"filter_typeid":"pages","documents":[`+documents+`]`+more+`}`)
	}
	hello := `{"id":"你好 \"1\"","text":"你好，世界！　　呼噜。"}`
	look := `{"documents":[{"id":"x","fingerprint":"%s","new":%v,"near":[%s]}]}` + "\n"
	apitest.WantBody(t, post(`{"id":"x","text":"你好世界呼噜"}`, `,"remember":false`), fmt.Sprintf(look, "222a820580050201", true, ""))
	two := `{"id":"a","text":"` + fox + `"},{"text":"` + strings.ToUpper(fox) + `!","id":"b"},` + hello
	a := post(two, "")
	if a.Status != 200 {
		t.Fatal(a)
	}
	for range 2 { // a repeated call gets the same answer, plus what came meanwhile
		again := post(two, "")
		if want := strings.Replace(a.Body, `"near":[]}`, `"near":[{"id":"b","distance":0}]}`, 1); again.Body != want {
			t.Fatalf("again:\n%s\nwant\n%s", again.Body, want)
		}
	}
	r.HTTP.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = apitest.OpenEmbedded(t, dir)
	r = apitest.Over(t, st)
	apitest.WantBody(t, post(`{"id":"x","text":"你好世界呼噜"}`, `,"remember":false,"distance":0`), fmt.Sprintf(look, "222a820580050201", false, `{"id":"你好 \"1\"","distance":0}`))
	if a := post(`{"id":"x","text":"`+fox+` x1"}`, `,"limit":1`); !strings.Contains(a.Body, `"near":[{"id":"a","distance":`) || !strings.HasSuffix(a.Body, `}],"more":true}]}`+"\n") {
		t.Errorf("with a limit: %s", a.Body)
	}
	apitest.WantBody(t, post("", ""), `{"documents":[]}`+"\n")
	if info := apitest.Info(t, r.Do("GET", "/api/v1/filters/pages", "")); info.Items != 4 || info.Bytes == 0 {
		t.Errorf("%+v", info)
	}
	text := r.Scrape()
	for _, want := range []string{`urifilter_filter_items{filter="pages"} 4`, `urifilter_items_total{filter="pages",result="duplicate"} 1`, `urifilter_checked_items_total{filter="pages",result="seen"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}
	if a := r.Do("POST", "/api/v1/filters/pages/clear?confirm=pages", ""); a.Status != 200 {
		t.Fatal(a)
	}
	if a := post(two, ""); strings.Count(a.Body, `"new":true`) != 2 {
		t.Errorf("cleared: %s", a.Body)
	}
	r.HTTP.Close()
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// Faults of a call are reported with the index of the document, and nothing is remembered.
func TestNearRefuses(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Limits.BodyBytes, o.Limits.Items, o.Limits.TextBytes = 12<<20, 4, 1000 })
	r.Put("pages", `{"kind":"simhash","distance":2}`)
	good := `{"id":"good","text":"` + fox + `"}`
	call := func(documents string) string {
		return `{"filter":"pages","documents":[` + good + `,` + documents + `]}`
	}
	for _, test := range []struct {
		status     int
		code, body string
		index      int // of the document, -1: none
	}{
		{400, "missing_field", call(`{"id":"a"}`), 1},
		{400, "missing_field", call(`{"text":"` + fox + `"}`), 1},
		{400, "wrong_type", call(`{"id":"a","text":null}`), 1},
		{400, "wrong_type", call(`{"id":7,"text":"abc"}`), 1},
		{400, "wrong_type", call(`"text"`), 1},
		{400, "unknown_field", call(`{"id":"a","txt":"abc"}`), 1},
		{400, "duplicate_field", call(`{"id":"a","text":"abc","text":"abc"}`), 1},
		{400, "id_invalid", call(`{"id":"","text":"abc"}`), 1},
		{400, "id_invalid", call(`{"id":"` + strings.Repeat("é", 513) + `","text":"abc"}`), 1},
		{400, "duplicate_id", call(`{"id":"b","text":"abc"},{"id":"b","text":"another"}`), 2},
		{400, "text_too_short", call(`{"id":"a","text":""}`), 1},
		{400, "text_too_short", call(`{"id":"a","text":" a - b "}`), 1},
		{400, "text_too_short", call(`{"id":"b","text":"abc"},{"id":"a","text":"\u4f60\u597d"}`), 2},
		{400, "invalid_utf8", call("{\"id\":\"a\",\"text\":\"ab\xffcd\"}"), 1},
		{400, "invalid_utf8", call(`{"id":"\ud800","text":"abcd"}`), 1},
		{400, "malformed_json", call(`{"id":"a","text":"abc"`), -1},
		{400, "malformed_json", call(`{"id":"a","text":"abc"}`) + "x", -1},
		{400, "malformed_json", `[]`, -1},
		{413, "text_too_large", call(`{"id":"a","text":"` + strings.Repeat("ten bytes ", 1<<20) + `"}`), 1},
		{413, "text_too_large", call(`{"id":"a","text":"` + strings.Repeat(`\u0061\n`, 501) + `"}`), 1},
		{413, "too_many_items", call(`{"id":"b","text":"abc"},{"id":"c","text":"abc"},{"id":"d","text":"abc"},{"id":"e","text":"abc"}`), 4},
		{413, "body_too_large", call(`{"id":"a","text":"` + strings.Repeat("ten bytes ", 13<<17) + `"}`), -1},
		{400, "missing_field", `{"filter":"pages"}`, -1},
		{400, "missing_field", `{"documents":[` + good + `]}`, -1},
		{400, "wrong_type", `{"filter":"pages","documents":{}}`, -1},
		{400, "wrong_type", `{"filter":"pages","documents":[` + good + `],"remember":0}`, -1},
		{400, "unknown_field", `{"filter":"pages","uri_list":["a"]}`, -1},
		{400, "duplicate_field", `{"filter":"pages","filter_typeid":"pages","documents":[` + good + `]}`, -1},
		{422, "distance_invalid", `{"filter":"pages","documents":[` + good + `],"distance":3}`, -1},
		{422, "distance_invalid", `{"filter":"pages","documents":[` + good + `],"distance":-1}`, -1},
		{422, "distance_invalid", `{"filter":"pages","documents":[` + good + `],"distance":0.5}`, -1},
		{422, "limit_invalid", `{"filter":"pages","documents":[` + good + `],"limit":0}`, -1},
		{422, "limit_invalid", `{"filter":"pages","documents":[` + good + `],"limit":101}`, -1},
		{422, "near_not_supported", `{"filter":"uri","documents":[` + good + `]}`, -1},
		{404, "unknown_filter", `{"filter":"none","documents":[` + good + `]}`, -1},
	} {
		a := r.Post("/api/v1/near", test.body)
		p := a.Problem(t)
		index := -1
		if p.Index != nil {
			index = *p.Index
		}
		if a.Status != test.status || p.ErrorCode != test.code || index != test.index && test.code != "malformed_json" {
			t.Errorf("%.80s: %d %s, index %d; want %d %s, %d", test.body[min(len(test.body), len(call("")))-2:], a.Status, a.Body, index, test.status, test.code, test.index)
		}
	}
	if a := r.Post("/api/v1/near", fox, "Content-Type", "text/plain"); a.Status != 415 {
		t.Errorf("lines: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"filter", "check", "forget"} {
		a := r.Post("/api/v1/"+path, `{"filter":"pages","items":["a"]}`)
		if a.Status != 422 || a.Problem(t).ErrorCode != "items_not_supported" || !strings.Contains(a.Body, "/api/v1/near") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := r.Post("/api/v1/filter?filter=pages", "a\n", "Content-Type", "text/plain"); a.Status != 422 || a.Problem(t).ErrorCode != "items_not_supported" {
		t.Errorf("a stream: %d %s", a.Status, a.Body)
	}
	for body, want := range map[string]string{
		`{"kind":"simhash","distance":0}`:          "distance: 0: want a whole number, such as 3",
		`{"kind":"bloom","capacity":0}`:            "capacity: 0: want a whole number of items",
		`{"kind":"bloom","error_rate":0.0}`:        "error_rate: 0: want ",
		`{"kind":"simhash","distance":8}`:          "distance: 8: want 1 to 7, such as 3",
		`{"kind":"simhash","feature_hash":"sha1"}`: "want xxh3 or md5",
		`{"kind":"simhash","capacity":10}`:         "capacity: is for filters of the kind bloom or scaling: a simhash filter keeps fingerprints",
		`{"kind":"exact","distance":3}`:            "distance: is for filters of the kind simhash",
	} {
		if a := r.Put("wrong", body); a.Status != 422 || !strings.Contains(a.Problem(t).Detail, want) {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
	if info := apitest.Info(t, r.Do("GET", "/api/v1/filters/pages", "")); info.Items != 0 {
		t.Errorf("a refused call is remembered: %+v", info)
	}
}

// A caller that may only read may look; the token may be in the body.
func TestNearHasTwoScopes(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	if a := r.Do("PUT", "/api/v1/filters/pages", `{"kind":"simhash"}`, "Authorization", "Bearer secret-admin"); a.Status != 201 {
		t.Fatal(a)
	}
	documents := `{"filter":"pages","documents":[{"id":"a","text":"` + fox + `"}]`
	for token, want := range map[string][2]int{"read": {403, 200}, "filter": {200, 200}, "forget": {403, 403}, "admin": {200, 200}, "none": {401, 401}} {
		for i, body := range []string{documents, documents + `,"remember":false`} {
			if a := r.Post("/api/v1/near", body+`}`, "Authorization", "Bearer secret-"+token); a.Status != want[i] {
				t.Errorf("%s: %d %s, want %d", token, a.Status, a.Body, want[i])
			}
			if a := r.Post("/api/v1/near", body+`,"access_token":"secret-`+token+`"}`); a.Status != want[i] {
				t.Errorf("%s in the body: %d %s, want %d", token, a.Status, a.Body, want[i])
			}
		}
	}
	if a := r.Post("/api/v1/near", documents+`}`); a.Status != 401 {
		t.Errorf("no token: %d %s", a.Status, a.Body)
	}
}

// At the bound on memory a call that remembers is refused, one that looks is answered, and a
// cleared filter takes documents again.
func TestNoRaceASimhashFilterHasABound(t *testing.T) {
	mem := &apitest.MemStore{}
	e, err := engine.Open(t.Context(), mem, engine.Settings{
		Filters:     []engine.Spec{{ID: 7, Name: "pages", Kind: "simhash", Params: configs.Simhash{Distance: 3, FeatureHash: configs.FeatureXXH3}}},
		FilterBytes: 8 << 20, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := apitest.Over(t, mem, func(o *api.Options) { o.Engine = e })
	const each = 150
	call := func(n int, more string) string {
		var documents []string
		for i := range each {
			documents = append(documents, fmt.Sprintf(`{"id":"%01000d","text":"%x"}`, n*each+i, sha256.Sum256(fmt.Append(nil, n, i))))
		}
		return `{"filter":"pages","documents":[` + strings.Join(documents, ",") + `]` + more + `}`
	}
	n := 0
	for ; n < 40; n++ {
		if a := r.Post("/api/v1/near", call(n, "")); a.Status == 507 && a.Problem(t).ErrorCode == "filter_full" && strings.Contains(a.Body, "limits.filter_bytes") {
			break
		} else if a.Status != 200 {
			t.Fatal(a)
		}
	}
	if n < 3 || n == 40 {
		t.Errorf("full after %d calls", n)
	}
	if a := r.Post("/api/v1/near", call(n, `,"remember":false`)); a.Status != 200 || strings.Count(a.Body, `"new":true`) != each {
		t.Errorf("a look: %d %.200s", a.Status, a.Body)
	}
	if a := r.Do("POST", "/api/v1/filters/pages/clear?confirm=pages", ""); a.Status != 200 {
		t.Fatal(a)
	}
	if a := r.Post("/api/v1/near", call(0, "")); a.Status != 200 {
		t.Errorf("after a clear: %d %.200s", a.Status, a.Body)
	}
}
