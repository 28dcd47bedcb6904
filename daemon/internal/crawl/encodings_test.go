package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
)

// encodings are those of the test's pages, with a language written in each, and a query of its
// links as it must arrive: in the encoding of the page, but in UTF-8 for UTF-16.
var encodings = []struct{ name, language, query, sent string }{
	{"gb18030", "zh-hans", "图书馆", "%CD%BC%CA%E9%B9%DD"},
	{"big5", "zh-hant", "圖書館", "%B9%CF%AE%D1%C0]"},
	{"shift_jis", "ja", "図書館", "%90}%8F%91%8A%D9"},
	{"euc-jp", "ja", "図書館", "%BF%DE%BD%F1%B4%DB"},
	{"iso-2022-jp", "ja", "図書館", "%1B$B?^=q4[%1B(B"},
	{"euc-kr", "ko", "도서관", "%B5%B5%BC%AD%B0%FC"},
	{"windows-1251", "ru", "порт", "%EF%EE%F0%F2"},
	{"koi8-r", "ru", "порт", "%D0%CF%D2%D4"},
	{"windows-1253", "el", "πόλη", "%F0%FC%EB%E7"},
	{"windows-1250", "cs", "město", "m%ECsto"},
	{"windows-1252", "fr", "thé", "th%E9"},
	{"utf-16le", "de", "Tür", "T%C3%BCr"},
	{"utf-8", "tr", "kütüphane", "k%C3%BCt%C3%BCphane"},
}

// TestEncodings: the stored text of pages in many encodings, declared in the header, in the page,
// wrongly or not at all, equals the original character by character.
func TestEncodings(t *testing.T) {
	t.Parallel()
	type page struct{ contentType, text, body string }
	pages := map[string]page{}
	index := "<!doctype html><title>index</title>"
	for _, e := range encodings {
		text, err := os.ReadFile(filepath.Join("charset", "testdata", "texts", e.language+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		encoding, err := htmlindex.Get(e.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range []struct{ how, contentType, meta string }{
			{"header", "text/html; charset=" + e.name, ""},
			{"meta", "text/html", `<meta charset="` + e.name + `">`},
			{"wrong", "text/html; charset=utf-8", ""},
			{"none", "text/html", ""},
		} {
			whole := "<!doctype html><html><head>" + declared.meta + "<title>x</title></head><body><p>" + strings.ReplaceAll(string(text), "\n", "</p>\n<p>") +
				fmt.Sprintf(`</p><a href="/search/%s/%s?q=%s">x</a></body></html>`, e.name, declared.how, e.query)
			body, err := encoding.NewEncoder().String(whole)
			if err != nil {
				t.Fatal(err)
			}
			path := "/" + e.name + "/" + declared.how
			pages[path] = page{declared.contentType, whole, body}
			index += `<a href="` + path + `">x</a>`
		}
	}
	var mu sync.Mutex
	queries := map[string]string{} // by path, as they came
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := pages[r.URL.Path]
		switch {
		case r.URL.Path == "/":
			p = page{contentType: "text/html", body: index}
		case strings.HasPrefix(r.URL.Path, "/search/"):
			mu.Lock()
			queries[r.URL.Path] = r.URL.RawQuery
			mu.Unlock()
			p = page{contentType: "text/html", body: "<p>found"}
		case !ok:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", p.contentType)
		_, _ = w.Write([]byte(p.body))
	}))
	t.Cleanup(server.Close)

	dir := t.TempDir()
	run(t, dir, setting(server.URL+"/", 1000, 4))
	records, err := crawltest.Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		path := strings.TrimPrefix(r.URI, server.URL)
		p, ok := pages[path]
		if !ok {
			continue
		}
		delete(pages, path)
		stored, err := os.ReadFile(filepath.Join(dir, "pages", filepath.FromSlash(r.File)))
		if err != nil || string(stored) != p.text || r.Replaced != 0 {
			t.Errorf("%s: %v, stored as %s (declared %q, detected %q), %d replaced, is not the original: %.300q", path, err, r.Encoding, r.Declared, r.Detected, r.Replaced, stored)
		}
	}
	for path := range pages {
		t.Errorf("%s was not stored", path)
	}
	for _, e := range encodings {
		for _, how := range []string{"header", "meta", "wrong", "none"} {
			if got, want := queries["/search/"+e.name+"/"+how], "q="+e.sent; got != want {
				t.Errorf("%s, declared by %s: the query came as %q, want %q", e.name, how, got, want)
			}
		}
	}
}
