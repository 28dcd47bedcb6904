package streams_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// unpack returns the content of a body in that coding.
func unpack(t testing.TB, coding string, body []byte) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r); err == nil {
			defer z.Close()
			r = z
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// accepting sends a request with its own Accept-Encoding, and returns the answer as it came.
func accepting(r *apitest.Rig, path, kind, body, accept string) (*http.Response, []byte) {
	r.T.Helper()
	req, err := http.NewRequest(http.MethodPost, r.HTTP.URL+path, strings.NewReader(body))
	if err != nil {
		r.T.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept-Encoding", accept) // so that the transport does not unpack
	resp, err := r.HTTP.Client().Do(req)
	if err != nil {
		r.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.T.Fatal(err)
	}
	return resp, text
}

func manyItems(from, n int) (list, lines string) {
	var a, b strings.Builder
	for i := range n {
		fmt.Fprintf(&a, `,"https://example.com/some/path/%d"`, from+i)
		fmt.Fprintf(&b, "https://example.com/some/path/%d\n", from+i)
	}
	return a.String()[1:], b.String()
}

func TestLargeAnswersAreCompressed(t *testing.T) {
	r := apitest.New(t)
	list, _ := manyItems(0, 10_000)
	for i, accept := range []string{"gzip", "zstd", "identity", "gzip;q=0.5, zstd", "gzip", "zstd"} { // later ones reuse pooled packers
		coding := map[string]string{"identity": "", "gzip;q=0.5, zstd": "zstd"}[accept]
		if !strings.Contains(accept, ",") && accept != "identity" {
			coding = accept
		}
		r.Put(fmt.Sprint("c", i), `{"kind":"bloom","capacity":1000000}`)
		resp, body := accepting(r, "/api/v1/filter", "application/json", fmt.Sprintf(`{"filter":"c%d","items":[%s]}`, i, list), accept)
		want := `{"uri_list":[` + list + `],"total":10000,"duplicates":0}` + "\n"
		if got := unpack(t, coding, body); got != want || resp.Header.Get("Content-Encoding") != coding || strings.Join(resp.Header["Vary"], ", ") != "Accept, Accept-Encoding" {
			t.Errorf("%s: %d bytes for %d, %v", accept, len(got), len(want), resp.Header)
		}
		if resp.ContentLength != int64(len(body)) || coding != "" && len(body) > len(want)/3 {
			t.Errorf("%s: length %d, %d bytes of %d", accept, resp.ContentLength, len(body), len(want))
		}
	}
}

func TestSmallAnswersAreNotTouched(t *testing.T) {
	r := apitest.New(t)
	list, lines := manyItems(0, 500)
	resp, body := accepting(r, "/api/v1/filter", "application/json", `{"filter":1,"items":[`+list+`]}`, "gzip")
	if got := resp.Header.Get("Content-Encoding") + strings.Join(resp.Header["Vary"], ", "); got != "Accept" || !bytes.Contains(body, []byte(list)) {
		t.Errorf("list: %v", resp.Header)
	}
	resp, body = accepting(r, "/api/v1/filter?filter=ip", "text/plain", lines, "gzip")
	if got := resp.Header.Get("Content-Encoding") + resp.Header.Get("Vary"); got != "" || string(body) != lines || resp.ContentLength != int64(len(lines)) {
		t.Errorf("stream: %v", resp.Header)
	}
	never := apitest.New(t, func(o *api.Options) { o.Limits.CompressBytes = 0 })
	list, lines = manyItems(0, 60_000)
	if resp, _ = accepting(never, "/api/v1/filter", "application/json", `{"filter":1,"items":[`+list+`]}`, "gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("a list is compressed though nothing should be")
	}
	if resp, _ = accepting(never, "/api/v1/filter?filter=ip", "text/plain", lines, "gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("a stream is compressed though nothing should be")
	}
}

// A long stream is compressed, too, with its totals in trailers; a client that sends more only
// after it has read the answer so far is not kept waiting.
func TestStreamsAreCompressed(t *testing.T) {
	r := apitest.New(t)
	_, lines := manyItems(0, 60_000)
	for i, coding := range []string{"gzip", "zstd"} {
		r.Put(fmt.Sprint("s", i), `{"kind":"bloom","capacity":2000000}`)
		resp, body := accepting(r, fmt.Sprintf("/api/v1/filter?filter=s%d", i), "text/plain", lines, coding)
		if got := unpack(t, coding, body); got != lines || resp.Header.Get("Content-Encoding") != coding || resp.Trailer.Get("Urifilter-Total") != "60000" {
			t.Errorf("%s: %d bytes of %d, trailers %v", coding, len(got), len(lines), resp.Trailer)
		}
	}
	source, feed := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, r.HTTP.URL+"/api/v1/filter?filter=uri", source)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Accept-Encoding", "gzip")
	go func() { _, _ = io.WriteString(feed, lines) }() // without an end: a batch is 1 MiB of it
	resp, err := r.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 900_000)
	if _, err := io.ReadFull(z, part); err != nil || !strings.HasPrefix(lines, string(part)) {
		t.Errorf("while the body is not at its end: %v", err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(z)
	if err != nil || string(part)+string(rest) != lines {
		t.Errorf("the rest: %d bytes, %v", len(rest), err)
	}
}

// A cut shows in a compressed stream as in any other.
func TestCompressedStreamIsCut(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Limits.ItemBytes = 1000 })
	_, lines := manyItems(0, 60_000)
	req, err := http.NewRequest(http.MethodPost, r.HTTP.URL+"/api/v1/filter?filter=uri", strings.NewReader(lines+strings.Repeat("x", 1001)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Accept-Encoding", "zstd")
	resp, err := r.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil || resp.Trailer.Get("Urifilter-Total") != "" {
		t.Errorf("taken for whole: %v, %v", err, resp.Trailer)
	}
}

func TestFavicon(t *testing.T) {
	if a := apitest.New(t).Do("GET", "/favicon.ico", ""); a.Status != http.StatusNoContent || a.Body != "" {
		t.Errorf("got %d, %q", a.Status, a.Body)
	}
}
