package http_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func TestFilterRemembers(t *testing.T) {
	r := apitest.New(t)
	const body = `{"filter_typeid":1,"uri_list":["https://www.baidu.com/","http://www.2cto.com","https://www.baidu.com/"]}`
	apitest.WantBody(t, r.Post("/api/v1/filter", body), `{"uri_list":["https://www.baidu.com/","http://www.2cto.com"],"total":3,"duplicates":1}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/filter", body), `{"uri_list":[],"total":3,"duplicates":3}`+"\n")
}

// filter and items are other names of filter_typeid and uri_list: in lists, in queries of
// streams and on every path. The answer is the same.
func TestBothNamesOfAMember(t *testing.T) {
	for _, path := range []string{"/api/v1/filter", "/cr-clawr/uri_filter/api/uri_filter"} {
		r := apitest.New(t)
		apitest.WantBody(t, r.Post(path, `{"filter":"uri","items":["a","b"]}`), `{"uri_list":["a","b"],"total":2,"duplicates":0}`+"\n")
		apitest.WantBody(t, r.Post(path, `{"items":["b","c"],"filter_typeid":1}`), `{"uri_list":["c"],"total":2,"duplicates":1}`+"\n")
		apitest.WantBody(t, r.Post("/api/v1/check", `{"uri_list":["c","d"],"filter":1}`), `{"new":[false,true]}`+"\n")
		apitest.WantBody(t, r.Post(path+"?filter=uri", "d\nc\n", "Content-Type", "text/plain"), "d\n")
		apitest.WantBody(t, r.Post("/api/v1/check?filter=1", "d\ne\n", "Content-Type", "text/plain"), "seen\nnew\n")
	}
}

func TestItemsAreRememberedAsThemselves(t *testing.T) {
	r := apitest.New(t)
	list := `["\u4e2d\u6587","10.0.0.1",1,"1",1.5,true,[1,2],{"a":1,"b":2},"two\nlines","` + strings.Repeat("x", 10_000) + `"]`
	a := r.Post("/api/v1/filter", `{"filter_typeid":"uri","uri_list":`+list+`}`)
	apitest.WantBody(t, a, `{"uri_list":`+list+`,"total":10,"duplicates":0}`+"\n")
	again := `["中文",1.0,{"b":2,"a":1},"true"]`
	a = r.Post("/api/v1/filter", `{"filter_typeid":"uri","uri_list":`+again+`}`)
	apitest.WantBody(t, a, `{"uri_list":["true"],"total":4,"duplicates":3}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter_typeid":2,"uri_list":[]}`), `{"uri_list":[],"total":0,"duplicates":0}`+"\n")
}

func TestEveryPathAndTypeOfTheFilterCall(t *testing.T) {
	n := 0
	for _, path := range []string{"/api/v1/filter", "/cr-clawr/uri_filter/api/uri_filter", "/cr-clawr/uri_filter/api/uri_filter/"} {
		for _, kind := range []string{"", "application/json", "application/json; charset=UTF-8", "application/vnd.api+json", "application/x-www-form-urlencoded"} {
			t.Run(path+" "+kind, func(t *testing.T) {
				r := apitest.New(t)
				n++
				a := r.Do("POST", path, fmt.Sprintf(`{"filter_typeid":1,"uri_list":[%d]}`, n), "Content-Type", kind)
				apitest.WantBody(t, a, fmt.Sprintf(`{"uri_list":[%d],"total":1,"duplicates":0}`+"\n", n))
			})
		}
	}
}

func TestAnswerHeaders(t *testing.T) {
	a := apitest.New(t).Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":[1]}`)
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Content-Length": fmt.Sprint(len(a.Body)), "Server": ""} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestCheckRemembersNothing(t *testing.T) {
	r := apitest.New(t)
	r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["b"]}`)
	for range 2 {
		apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":1,"uri_list":["a","b","a"]}`), `{"new":[true,false,true]}`+"\n")
	}
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":1,"uri_list":[]}`), `{"new":[]}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/check?filter_typeid=uri", "a\nb\n", "Content-Type", "text/plain"), "new\nseen\n")
	apitest.WantBody(t, r.Post("/api/v1/check?filter_typeid=1", "\"a\"\n\"b\"\n", "Content-Type", "application/x-ndjson"), "true\nfalse\n")
}

func TestLines(t *testing.T) {
	r := apitest.New(t)
	a := r.Post("/api/v1/filter?filter_typeid=uri", "\ufeffa\r\nb\n\na\nc", "Content-Type", "text/plain; charset=utf-8")
	apitest.WantBody(t, a, "a\nb\nc\n")
	if total, dup := a.Header.Get("Urifilter-Total"), a.Header.Get("Urifilter-Duplicates"); total != "4" || dup != "1" {
		t.Errorf("totals: got %s and %s, want 4 and 1", total, dup)
	}
	if got := a.Header.Get("Content-Length"); got != "6" {
		t.Errorf("Content-Length: got %q, want 6", got)
	}
	apitest.WantBody(t, r.Post("/api/v1/filter?filter_typeid=1", "\"b\"\n 1 \n{\"x\": 2}\n", "Content-Type", "application/x-ndjson"), "1\n{\"x\": 2}\n")
	apitest.WantBody(t, r.Post("/api/v1/filter?filter_typeid=1", "", "Content-Type", "text/plain"), "")
}

// Text that is hardly a list of items is taken as it is, and its sender is told.
func TestOddLinesAreTold(t *testing.T) {
	r := apitest.New(t)
	for body, want := range map[string]string{
		"<?xml version=\"1.0\"?>\n<urlset>\n": "the body looks like a sitemap (XML): each of its lines is taken for an item; `urifilter filter --as sitemap FILE` takes the items out of it",
		"ä\x01,url\r\n1,http://a/\r\n":        "the body looks like a table (CSV) with the columns ??, url: each of its lines is taken for an item; `urifilter filter --as csv:url FILE` takes the items out of it",
		"http://a/\rhttp://b/\r":              "the body looks like text whose lines end in CR alone: each of its lines is taken for an item; `tr '\\r' '\\n' < FILE | urifilter ...` reads it line by line",
		"http://a/\nhttp://b/\n":              "",
		"":                                    "",
	} {
		for _, path := range []string{"filter", "check"} {
			if a := r.Post("/api/v1/"+path+"?filter=uri", body, "Content-Type", "text/plain"); a.Status != http.StatusOK || a.Header.Get("Urifilter-Warning") != want {
				t.Errorf("%s of %q: got %d, %q; want %q", path, body, a.Status, a.Header.Get("Urifilter-Warning"), want)
			}
		}
	}
	if a := r.Post("/api/v1/filter?filter=uri", "[\"http://a/\"]\n", "Content-Type", "application/x-ndjson"); a.Status != http.StatusOK || a.Header.Get("Urifilter-Warning") != "" {
		t.Errorf("NDJSON: got %d, %q", a.Status, a.Header.Get("Urifilter-Warning"))
	}
}

func TestGzipBodies(t *testing.T) {
	r := apitest.New(t)
	for i, coding := range []string{"gzip", "x-gzip", "GZIP"} { // the third finds a pooled reader
		body := apitest.Zipped(t, fmt.Sprintf(`{"filter_typeid":1,"uri_list":["z%d"]}`, i))
		apitest.WantBody(t, r.Do("POST", "/api/v1/filter", body, "Content-Encoding", coding), fmt.Sprintf(`{"uri_list":["z%d"],"total":1,"duplicates":0}`+"\n", i))
	}
	apitest.WantBody(t, r.Do("POST", "/api/v1/filter?filter_typeid=1", apitest.Zipped(t, "z0\nnew\n"), "Content-Type", "text/plain", "Content-Encoding", "gzip"), "new\n")
	apitest.WantBody(t, r.Do("POST", "/api/v1/filter?filter_typeid=1", apitest.Zipped(t, "z1\n")+apitest.Zipped(t, "newer\n"), "Content-Type", "text/plain", "Content-Encoding", "gzip"), "newer\n")
}

func TestChunkedBodyGrowsTheBuffer(t *testing.T) {
	r := apitest.New(t)
	var list strings.Builder
	for i := range 90_000 {
		fmt.Fprintf(&list, `,"https://example.com/some/path/%d"`, i)
	}
	body := `{"filter_typeid":1,"uri_list":[` + list.String()[1:] + `]}`
	req, err := http.NewRequest("POST", r.HTTP.URL+"/api/v1/filter", struct{ *strings.Reader }{strings.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if want := int64(len(`{"uri_list":[`+list.String()[1:]+`],"total":90000,"duplicates":0}`) + 1); resp.ContentLength != want {
		t.Errorf("answer of %d bytes, want %d", resp.ContentLength, want)
	}
}

// A call's buffers are reused; nothing of one request may show in the next.
func TestBuffersAreNotMixedUp(t *testing.T) {
	r := apitest.New(t)
	done := make(chan string)
	for w := range 8 {
		go func() {
			for i := range 200 {
				item := fmt.Sprintf(`"%d/%d/%s"`, w, i, strings.Repeat("y", w*i%300))
				resp, err := http.Post(r.HTTP.URL+"/api/v1/filter", "application/json", strings.NewReader(`{"filter_typeid":1,"uri_list":[`+item+`,`+item+`]}`))
				if err != nil {
					done <- err.Error()
					return
				}
				var b bytes.Buffer
				_, err = b.ReadFrom(resp.Body)
				resp.Body.Close()
				if want := `{"uri_list":[` + item + `],"total":2,"duplicates":1}` + "\n"; err != nil || b.String() != want {
					done <- fmt.Sprintf("got %q %v, want %q", b.String(), err, want)
					return
				}
			}
			done <- ""
		}()
	}
	for range 8 {
		if msg := <-done; msg != "" {
			t.Error(msg)
		}
	}
}
