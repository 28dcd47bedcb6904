package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
)

func newClient(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// An answer may be written in any way that JSON allows; only its meaning counts.
func TestFilterReadsAnyJSON(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	answerWith := func(answer string) {
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(w, answer)
			return true
		})
	}
	for _, answer := range []string{
		`{"uri_list":["a","\u0063"],"total":3,"duplicates":1}` + "\n",
		` {"total":3, "duplicates":1, "uri_list":["a" , "c"]}`,
		`{"uri_list":["a","c"],"total":3,"duplicates":1,"later":{}}`,
	} {
		answerWith(answer)
		got, err := c.Filter(t.Context(), "uri", []string{"a", "b", "c"})
		if err != nil || !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("%s: got %q, %v", answer, got, err)
		}
	}
	for _, answer := range []string{
		``, `{}`, `null`, `[]`, `{"uri_list":["a","c"]`,
		`{"uri_list":["a","c"],"total":3,"duplicates":1`,
		`{"uri_list":["a","c"],"total":3,"duplicates":1}x`,
		`{"uri_list":["a","c"],"total":3,"duplicates":0}`,
		`{"uri_list":["a","c"],"total":2,"duplicates":0}`,
		`{"uri_list":["a"],"total":3,"duplicates":1}`,
		`{"uri_list":["a","c",],"total":3,"duplicates":1}`,
		`{"uri_list":["a""c"],"total":3,"duplicates":1}`,
		`<html>`,
	} {
		answerWith(answer)
		if got, err := c.Filter(t.Context(), "uri", []string{"a", "b", "c"}); err == nil {
			t.Errorf("answer %q taken for whole: %q", answer, got)
		}
	}
	answerWith(`{"new":[true]}`)
	if _, err := c.Check(t.Context(), "uri", []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), "1 verdicts for 2 items") {
		t.Errorf("check: got %v, want a complaint of 1 verdict for 2 items", err)
	}
}

func TestServerKeepsTheContract(t *testing.T) { clienttest.Contract(t, clienttest.NewServer(t).URL) }

func TestItemThatIsNoJSON(t *testing.T) {
	c := newClient(t, clienttest.NewServer(t).URL)
	if _, err := client.FilterJSON(t.Context(), c, "uri", []any{func() {}}); err == nil || !strings.HasPrefix(err.Error(), "items: ") {
		t.Errorf("a function as an item: got %v, want an error of items", err)
	}
}

func TestErrorsCarryTheProblem(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	_, err := c.Filter(t.Context(), "uri", []string{"a", ""})
	var e *client.Error
	if !errors.As(err, &e) || e.Status != 400 || e.ErrorCode != "empty_item" || e.Index == nil || *e.Index != 1 {
		t.Fatalf("empty item: got %#v", err)
	}
	if want := "POST " + s.URL + "/api/v1/filter: 400 empty_item: empty_item (item 1)"; err.Error() != want {
		t.Errorf("text: got %q, want %q", err, want)
	}
	if n, _ := s.Items("uri", ""); n != 0 {
		t.Errorf("%d items remembered of a refused list", n)
	}
	s.RequireToken("secret")
	if _, err = c.Check(t.Context(), "uri", []string{"a"}); !errors.As(err, &e) || e.Status != 401 {
		t.Errorf("no token: got %v, want 401", err)
	}
	if _, err = newClient(t, s.URL, client.WithToken("secret")).Check(t.Context(), "uri", []string{"a"}); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

func TestErrorsOfOthersThanTheDaemon(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	for _, test := range []struct {
		status      int
		header      [2]string
		kind, body  string
		want        string
		retryAtMost time.Duration
	}{
		{502, [2]string{}, "text/html", "<h1>Bad Gateway</h1>", ": 502: Bad Gateway", 0},
		{503, [2]string{"Retry-After", "7"}, "text/plain", "store: journal failed\nmore", ": 503: store: journal failed", 7 * time.Second},
		{503, [2]string{"Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, "text/plain", "\xff", ": 503: Service Unavailable", time.Hour},
		{307, [2]string{"Location", "https://other/"}, "", "", "redirected to https://other/", 0},
		{500, [2]string{}, "application/problem+json", `{"status":`, ": 500: Internal Server Error", 0},
	} {
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if test.header[0] != "" {
				w.Header().Set(test.header[0], test.header[1])
			}
			w.Header().Set("Content-Type", test.kind)
			w.WriteHeader(test.status)
			io.WriteString(w, test.body)
			return true
		})
		err := c.Ready(t.Context())
		var e *client.Error
		if !errors.As(err, &e) || e.Status != test.status || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d: got %v, want %q in it", test.status, err, test.want)
			continue
		}
		if e.RetryAfter > test.retryAtMost || test.retryAtMost-e.RetryAfter > test.retryAtMost/60 {
			t.Errorf("%d: retry after %s, want about %s", test.status, e.RetryAfter, test.retryAtMost)
		}
	}
}

// By default a call that fails after its bytes were sent is not repeated, whatever the
// transport would do.
func TestFilterIsNotRepeated(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	if _, err := c.Filter(t.Context(), "uri", []string{"warm up"}); err != nil {
		t.Fatal(err)
	}
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	if got, err := c.Filter(t.Context(), "uri", []string{"a"}); err == nil {
		t.Fatalf("cut connection taken for an answer: %q", got)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("%d requests, want 2: %q", n, s.Requests())
	}
}

func TestTruncatedAnswerIsAnError(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	whole := `{"uri_list":["a"],"total":1,"duplicates":0}`
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		io.WriteString(w, whole[:20])
		return true
	})
	if got, err := c.Filter(t.Context(), "uri", []string{"a"}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("got %q, %v; want unexpected EOF and the address", got, err)
	}
}

func TestContextAndTimeoutEndACall(t *testing.T) {
	s := clienttest.NewServer(t)
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	defer close(release)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		select {
		case arrived <- struct{}{}:
		default:
		}
		select {
		case <-r.Context().Done():
		case <-release:
		}
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := newClient(t, s.URL).Filter(ctx, "uri", []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	_, err := newClient(t, s.URL, client.WithTimeout(20*time.Millisecond)).Filter(t.Context(), "uri", []string{"a"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no whole answer within 20ms") || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("timeout: got %v", err)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	for i := range 20 {
		if _, err := c.Filter(t.Context(), "uri", []string{fmt.Sprint("a", i)}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.FilterLines(t.Context(), "uri", strings.NewReader("b\n"), io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetFilter(t.Context(), "nope"); err == nil {
			t.Fatal("unknown filter found")
		}
		if _, err := c.Filter(t.Context(), "uri", []string{""}); err == nil {
			t.Fatal("empty item taken")
		}
	}
	// Usually two: one for streams and one for the others. But net/http gives up a connection whose
	// goroutine has not told within 50 ms that a request is written, and so may happen on a busy machine.
	// Were those of one kind of call not reused, there would be 20 more.
	if n := s.Connections(); n > 10 {
		t.Errorf("%d connections for 80 calls in a row, want one for streams and one for the others, and few more", n)
	}
}

func TestConnectionErrorNamesTheAddress(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Stop()
	_, err := newClient(t, s.URL, client.WithPatience(0)).Filter(t.Context(), "uri", []string{"a"})
	if err == nil || strings.Count(err.Error(), "POST "+s.URL+"/api/v1/filter: ") != 1 || strings.Contains(err.Error(), `"http`) {
		t.Errorf("got %v, want the address once", err)
	}
}

func TestNewRefusesBadAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"":                 "no host",
		"http://":          "no host",
		"ftp://h":          "want http or https",
		"http://h?x=1":     "no query",
		"http://h/%zz":     "invalid URL escape",
		"unix:///run/sock": "want http or https",
		":8000":            "no host",
		"h:99999":          "port 99999: want 1 to 65535",
		"h:0":              "port 0: want 1 to 65535",
		"h:1,":             "no host",
		"h:1, h:1":         "appears twice",
	} {
		if _, err := client.New(address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", address, err, want)
		}
	}
	for _, address := range []string{
		"http://u:secret@h:99999", "http://u:se%zzcret@h", "http://u:secret/x@h", "http://u:secret@h:port", "http://u:sec,ret@h",
		"http://u:secret@h,http://u:secret@h", "ftp://u:secret@h", "http://u:secret@h?x=1", "u:sec ret@h", "http://u:secret@/",
	} {
		if _, err := client.New(address); err == nil || strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ret") {
			t.Errorf("%q: %v, want an error that does not show the password", address, err)
		}
	}
	for address, want := range map[string]string{
		"127.0.0.1:8000":       "http://127.0.0.1:8000",
		"localhost":            "http://localhost",
		"[::1]:8000":           "http://[::1]:8000",
		"https://h/prefix/":    "https://h/prefix",
		"https://u:secret@h:1": "https://u:xxxxx@h:1",
	} {
		c, err := client.New(address)
		if err != nil {
			t.Errorf("%q: %v", address, err)
		} else if c.URL() != want {
			t.Errorf("%q: got %q, want %q", address, c.URL(), want)
		}
	}
}

// A name cannot escape from its place in the path.
func TestNameStaysInItsPlace(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusNoContent)
		return true
	})
	if err := c.DropFilter(t.Context(), "a/../b?c d"); err != nil {
		t.Errorf("drop of an odd name: %v", err)
	}
	requests := s.Requests()
	if got, want := requests[len(requests)-1], "DELETE /api/v1/filters/a%2F..%2Fb%3Fc%20d?confirm=a%2F..%2Fb%3Fc+d"; got != want {
		t.Errorf("odd name: got %s, want %s", got, want)
	}
}

func TestProblemIsTheWireShape(t *testing.T) {
	index := 3
	b, err := json.Marshal(client.Problem{Type: "about:blank", Title: "Bad Request", Status: 400, ErrorCode: "empty_item", Index: &index})
	if want := `{"type":"about:blank","title":"Bad Request","status":400,"error_code":"empty_item","index":3}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
}

// A copy may take longer than the timeout of calls; only its context ends it.
func TestCopiesAreNotTimed(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
			fmt.Fprintln(w, `{"filter":"uri","version":"uri-3","generation":2,"bytes":64,"uploaded":8,"items_estimate":9,"took_seconds":0.5}`)
		}
		return true
	})
	c := newClient(t, s.URL, client.WithTimeout(20*time.Millisecond))
	want := client.CopyResult{Filter: "uri", Version: "uri-3", Generation: 2, Bytes: 64, Uploaded: 8, ItemsEstimate: 9, TookSeconds: 0.5}
	if got, err := c.Writeback(t.Context(), "uri"); err != nil || got != want {
		t.Errorf("writeback: got %+v, %v", got, err)
	}
	if got, err := c.Restore(t.Context(), "uri", "uri-3"); err != nil || got != want {
		t.Errorf("restore: got %+v, %v", got, err)
	}
	if _, err := c.Restore(t.Context(), "uri", ""); err != nil {
		t.Errorf("restore of the newest: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	})
	if _, err := c.Writeback(ctx, "uri"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by its context: got %v", err)
	}
	requests := s.Requests()
	for i, want := range []string{"POST /api/v1/filters/uri/writeback", "POST /api/v1/filters/uri/restore?version=uri-3", "POST /api/v1/filters/uri/restore"} {
		if requests[i] != want {
			t.Errorf("request %d: got %s, want %s", i, requests[i], want)
		}
	}
}

// What is read of a filter is written as it came, also of a kind that this client does not know:
// one that has a capacity and counts its items, and one whose bit-map has none.
func TestFilterInfoOfAnyKind(t *testing.T) {
	for text, bitMap := range map[string]bool{
		`{"id":1,"name":"a","kind":"bloom","capacity":9,"error_rate":0.01,"on_full":"grow","items_estimate":0,"fill_ratio":0,"fpr_estimate":0,"bytes":64,"generation":1,"last_writeback":null,"canonical":"safe"}`: true,
		`{"id":1,"name":"a","kind":"timing","expire":60,"items":0,"bytes":64,"generation":1}`:                                                                                                                      false,
		`{"id":1,"name":"a","kind":"exact","expire":null,"items":3,"bytes":64,"generation":1,"store":"mysql"}`:                                                                                                     false,
		`{"id":1,"name":"a","kind":"simhash","expire":null,"items":3,"bytes":64,"generation":1,"distance":3,"feature_hash":"md5"}`:                                                                                 false,
		`{"id":1,"name":"a","kind":"cuckoo","capacity":9,"error_rate":0.1,"on_full":"reject","expire":null,"items":0,"bytes":64,"generation":1,"buckets":16}`:                                                      false,
		`{"id":1,"name":"a","kind":"free","capacity":0,"error_rate":0,"on_full":"","items_estimate":5,"fill_ratio":0.5,"fpr_estimate":0.1,"bytes":64,"generation":1,"last_writeback":null}`:                        true,
	} {
		var info client.FilterInfo
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(info); err != nil || string(got) != text || info.HasBitMap() != bitMap {
			t.Errorf("got  %s, bit-map: %v, %v\nwant %s", got, info.HasBitMap(), err, text)
		}
	}
	if made := (client.FilterInfo{Capacity: 9}); !made.HasBitMap() {
		t.Error("a filter that was not read, with a capacity, has no bit-map")
	}
}
