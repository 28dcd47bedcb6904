package filters_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// bitsOf returns whether each of n items is new, as an answer in bits says.
func bitsOf(t *testing.T, a apitest.Answer, n int) (isNew []bool) {
	t.Helper()
	if a.Status != 200 || a.Header.Get("Content-Type") != client.MediaBits || len(a.Body) != (n+7)/8 || a.Header.Get("Urifilter-Total") != strconv.Itoa(n) {
		t.Fatalf("of %d items: %d %v, %d bytes: %.200q", n, a.Status, a.Header, len(a.Body), a.Body)
	}
	for i := range 8 * len(a.Body) {
		set := a.Body[i/8]>>(i%8)&1 == 1
		if i < n {
			isNew = append(isNew, set)
		} else if set {
			t.Fatalf("of %d items: bit %d is set", n, i)
		}
	}
	return isNew
}

// An answer in bits says what JSON says, for all kinds in both stores: for lists of any length, with
// equal items and such that are skipped.
func TestAnswersInBits(t *testing.T) {
	server := redistest.Start(t)
	for name, open := range map[string]func() (engine.Store, error){
		"embedded": func() (engine.Store, error) { return apitest.OpenEmbedded(t, t.TempDir()), nil },
		"redis": func() (engine.Store, error) {
			return redis.Open(t.Context(), redis.Config{Options: redis.Options{Addrs: []string{server.Addr}, Timeout: time.Minute}, Log: slog.New(slog.DiscardHandler)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := open()
			if err != nil {
				t.Fatal(err)
			}
			r := apitest.Over(t, st)
			t.Cleanup(func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			})
			kinds := []string{`"kind":"bloom","capacity":1000`, `"kind":"bloom","capacity":10000,"on_full":"warn"`, `"kind":"exact"`, `"kind":"timing","expire":3600`}
			if name == "embedded" {
				kinds = append(kinds, `"kind":"scaling","capacity":1000`, `"kind":"exact","digest":64`)
			}
			for i, kind := range kinds {
				answersAlike(t, r, fmt.Sprint("in_", i), kind)
			}
		})
	}
}

// answersAlike asks a filter in JSON and one like it in bits for the same lists.
func answersAlike(t *testing.T, r *apitest.Rig, name, kind string) {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	for _, n := range []string{name + "_json", name + "_bits"} {
		if a := r.Put(n, "{"+kind+"}"); a.Status != 201 {
			t.Fatalf("PUT {%s}: %d %s", kind, a.Status, a.Body)
		}
	}
	for _, n := range []int{0, 1, 7, 8, 9, 16, 63, 1001} {
		for _, skip := range []bool{false, true} {
			list := make([]any, n)
			for i := range list {
				switch x := random.IntN(2000); {
				case skip && x%7 == 0:
					list[i] = ""
				case x%5 == 0:
					list[i] = map[string]any{"n": x}
				default:
					list[i] = fmt.Sprint("https://example.com/", x)
				}
			}
			body := func(filter string) string {
				call := map[string]any{"filter": filter, "items": list}
				if skip {
					call["invalid"] = "skip"
				}
				text, err := json.Marshal(call)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			for _, path := range []string{"/api/v1/check", "/api/v1/filter"} {
				var want struct {
					New        []*bool
					URIList    []json.RawMessage `json:"uri_list"`
					Duplicates int
					Invalid    int
				}
				a := r.Post(path, body(name+"_json"))
				if err := json.Unmarshal([]byte(a.Body), &want); err != nil || a.Status != 200 {
					t.Fatalf("%s: %d %s", kind, a.Status, a.Body)
				}
				b := r.Post(path, body(name+"_bits"), "Content-Type", "application/json", "Accept", client.MediaBits)
				isNew := bitsOf(t, b, n)
				var fresh []string
				for i, is := range isNew {
					text, _ := json.Marshal(list[i])
					if is {
						fresh = append(fresh, string(text))
					}
					if path == "/api/v1/check" && is != (want.New[i] != nil && *want.New[i]) {
						t.Fatalf("%s, %d items: item %d is new: %v; in JSON %s", kind, n, i, is, a.Body)
					}
				}
				if path == "/api/v1/filter" {
					var texts []string
					for _, item := range want.URIList {
						texts = append(texts, string(item))
					}
					if strings.Join(fresh, "\n") != strings.Join(texts, "\n") || b.Header.Get("Urifilter-Duplicates") != strconv.Itoa(want.Duplicates) {
						t.Fatalf("%s, %d items, %s duplicates: %q is new, in JSON %s", kind, n, b.Header.Get("Urifilter-Duplicates"), fresh, a.Body)
					}
				}
				if got := b.Header.Get("Urifilter-Invalid"); skip && got != strconv.Itoa(want.Invalid) || !skip && got != "" {
					t.Errorf("%s, %d items: %q are skipped, want %d", kind, n, got, want.Invalid)
				}
			}
		}
	}
}

// Bits are answered to who names them with no less weight than JSON; errors, streams and other calls
// answer as ever. Vary tells caches which answers depend on Accept.
func TestWhoGetsBits(t *testing.T) {
	r := apitest.New(t)
	r.Put("jobs", `{"kind":"exact"}`)
	const list = `{"filter":"jobs","items":["a","b","c"]}`
	for accept, want := range map[string]bool{
		client.MediaBits: true, "Application/vnd.URIfilter.Bits": true, client.MediaBits + ", application/json;q=0.5": true, client.MediaBits + ", */*": true,
		"application/json;q=0.4, " + client.MediaBits + ";q=0.5": true, client.MediaBits + ";q=0.5, application/json;q=0.2, */*;q=0.9": true,
		"": false, "*/*": false, "application/*": false, "application/json": false, client.MediaBits + ";q=0": false, client.MediaBits + ";q=0.5, application/json": false,
		client.MediaBits + ";q=0.5, application/*;q=0.6": false, client.MediaBits + ";q=0.5, */*;q=0.6": false, client.MediaBits + ";q=x": false, client.MediaBits + "x": false,
	} {
		a := r.Post("/api/v1/check", list, "Content-Type", "application/json", "Accept", accept)
		if got := a.Header.Get("Content-Type") == client.MediaBits; a.Status != 200 || got != want || a.Header.Get("Vary") != "Accept" {
			t.Errorf("Accept: %s: %d %q, Vary: %q", accept, a.Status, a.Header.Get("Content-Type"), a.Header.Get("Vary"))
		}
	}
	for _, c := range []struct{ path, body, kind, want string }{
		{"/api/v1/filter", `{"filter":"jobs","items":["a",""]}`, "application/json", `"error_code":"empty_item"`},
		{"/api/v1/filter", `{"filter":"nope","items":["a"]}`, "application/json", `"error_code":"unknown_filter"`},
		{"/api/v1/forget", list, "application/json", `{"forgotten":0}`},
		{"/api/v1/reserve", `{"filter":"jobs","items":["a","b"],"lease":60}`, "application/json", `{"uri_list":["a","b"]`},
		{"/api/v1/filter?filter=uri", "a\nb\n", "text/plain", "a\nb\n"},
		{"/api/v1/filter?filter=uri", "\"c\"\n", "application/x-ndjson", "\"c\"\n"},
	} {
		a := r.Post(c.path, c.body, "Content-Type", c.kind, "Accept", client.MediaBits)
		if !strings.Contains(a.Body, c.want) || a.Header.Get("Vary") != "" {
			t.Errorf("%s of %s: %d %s, Vary: %q", c.path, c.body, a.Status, a.Body, a.Header.Get("Vary"))
		}
	}
}
