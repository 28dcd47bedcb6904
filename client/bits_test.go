package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The client asks for bits and reads them, over its own connections and over those of net/http. It
// understands JSON from a daemon that does not know bits, and asks for it where it wants to know
// what was skipped.
func TestBits(t *testing.T) {
	var mu sync.Mutex // guards the following
	knows := true
	var asked []string
	takeAsked := func() (all []string) {
		mu.Lock()
		defer mu.Unlock()
		all, asked = asked, nil
		return all
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Items []string `json:"uri_list"`
		}
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &call); err != nil {
			t.Error(err)
		}
		accept := r.Header.Get("Accept")
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, accept)
		bits, fresh, verdicts := make([]byte, (len(call.Items)+7)/8), []string{}, []bool{}
		for i, item := range call.Items {
			isNew := strings.HasPrefix(item, "new")
			if verdicts = append(verdicts, isNew); isNew {
				fresh = append(fresh, item)
				bits[i/8] |= 1 << (i % 8)
			}
		}
		duplicates := len(call.Items) - len(fresh)
		if knows && strings.HasPrefix(accept, MediaBits) {
			w.Header().Set("Content-Type", MediaBits)
			w.Header().Set("Urifilter-Total", strconv.Itoa(len(call.Items)))
			w.Header().Set("Urifilter-Duplicates", strconv.Itoa(duplicates))
			_, _ = w.Write(bits)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/check") {
			_ = json.NewEncoder(w).Encode(CheckResult{New: verdicts})
			return
		}
		_ = json.NewEncoder(w).Encode(FilterResult[string]{URIList: fresh, Total: len(call.Items), Duplicates: duplicates})
	}))
	defer server.Close()
	for name, options := range map[string][]Option{"quick": nil, "net/http": {WithHTTPClient(server.Client())}} {
		c, err := New(server.URL, options...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, does := range []bool{true, false} {
			mu.Lock()
			knows = does
			mu.Unlock()
			for _, n := range []int{0, 1, 7, 8, 9, 1000} {
				var items, want []string
				verdicts := []bool{}
				for i := range n {
					item := fmt.Sprint("old ", i)
					if i%3 != 1 {
						item = fmt.Sprint("new ", i)
						want = append(want, item)
					}
					items, verdicts = append(items, item), append(verdicts, i%3 != 1)
				}
				if got, err := c.Filter(t.Context(), "uri", items); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s, knows bits: %v: %d items: got %q, %v", name, does, n, got, err)
				}
				if got, err := c.Check(t.Context(), "uri", items); err != nil || !slices.Equal(got, verdicts) {
					t.Errorf("%s, knows bits: %v: %d items: got %v, %v", name, does, n, got, err)
				}
			}
			if all := takeAsked(); len(all) != 12 || slices.ContainsFunc(all, func(a string) bool { return a != MediaBits+", application/json;q=0.5" }) {
				t.Errorf("%s asked for %q", name, all)
			}
			got, err := c.Filter(t.Context(), "uri", []string{"new"}, SkipInvalid(nil))
			if all := takeAsked(); err != nil || len(got) != 1 || len(all) != 1 || all[0] != "" {
				t.Errorf("%s: where items are skipped: %q, %v, asked for %q", name, got, err, all)
			}
		}
	}
}

// Bits that do not fit the list are an error, and no item is called new or seen.
func TestOddBits(t *testing.T) {
	var mu sync.Mutex
	var answer struct{ body, total, duplicates string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", MediaBits)
		w.Header().Set("Urifilter-Total", answer.total)
		w.Header().Set("Urifilter-Duplicates", answer.duplicates)
		_, _ = io.WriteString(w, answer.body)
	}))
	defer server.Close()
	c, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, a := range []struct {
		body, total, duplicates string
		sound                   bool
	}{
		{"\x05", "3", "1", true}, {"", "3", "1", false}, {"\x05\x00", "3", "1", false}, {"\x0d", "3", "0", false},
		{"\x05", "4", "1", false}, {"\x05", "3", "2", false}, {"\x05", "", "1", false}, {"\x05", "3", "", false},
	} {
		mu.Lock()
		answer.body, answer.total, answer.duplicates = a.body, a.total, a.duplicates
		mu.Unlock()
		items := []string{"a", "b", "c"}
		if got, err := c.Filter(t.Context(), "uri", items); (err == nil) != a.sound || a.sound != slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("%+v: got %q, %v", a, got, err)
		}
		if got, err := c.Check(t.Context(), "uri", items); (err == nil) != a.sound || a.sound != slices.Equal(got, []bool{true, false, true}) {
			t.Errorf("%+v: got %v, %v", a, got, err)
		}
	}
}
