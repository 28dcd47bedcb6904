package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// sentItems are the items of a request as a server reads them.
func sentItems(t *testing.T, p Protocol, request []byte) []string {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength != int64(len(body)) || r.Host != "a:80" || r.Header.Get("Authorization") != "Bearer secret" {
		t.Fatalf("%s: %d bytes of %d to %s, %v, %v", p, len(body), r.ContentLength, r.Host, r.Header, err)
	}
	if !strings.HasPrefix(r.URL.Path, "/prefix/api/v1/filter") {
		t.Errorf("%s: path %s", p, r.URL.Path)
	}
	if p == JSON {
		var list struct {
			Filter string   `json:"filter_typeid"`
			Items  []string `json:"uri_list"`
		}
		if err := json.Unmarshal(body, &list); err != nil || list.Filter != "a b" {
			t.Fatalf("%.200q: filter %q, %v", body, list.Filter, err)
		}
		return list.Items
	}
	if got := r.URL.Query(); got.Get("filter_typeid") != "a b" || len(got) != 1 {
		t.Errorf("%s: query %v", p, url.Values(got))
	}
	items := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if p == NDJSON {
		for i, line := range items {
			if err := json.Unmarshal([]byte(line), &items[i]); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
	return items
}

func TestRequestsAreReadAsTheyWereMeant(t *testing.T) {
	items := []string{"https://a.example/", `quotes " and \ and "]}`, "tab\tand\x01", "ümlaut \u2028 😀", `","`}
	for _, p := range []Protocol{JSON, Text, NDJSON} {
		r := newRequest(p, "a:80", "/prefix", "secret", "a b")
		for _, want := range [][]string{items, {"one"}, slices.Repeat([]string{"many"}, 5000)} { // lengths of one, two and more digits
			r.reset()
			for _, item := range want {
				r.add([]byte(item))
			}
			if got := sentItems(t, p, r.whole()); !slices.Equal(got, want) {
				t.Errorf("%s: got %.5q, want %.5q", p, got, want)
			}
		}
	}
}

func TestProtocolNames(t *testing.T) {
	if p, err := ParseProtocol("ndjson"); p != NDJSON || err != nil {
		t.Errorf("got %q, %v", p, err)
	}
	for name, want := range map[string]string{"xml": "want json, bits, text, ndjson, resp", "": "want json"} {
		if _, err := ParseProtocol(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// take fills a batch.
func take(t *testing.T, s source, n int) (items []string, duplicates int) {
	t.Helper()
	r := newRequest(Text, "a:80", "/prefix", "secret", "a b")
	duplicates, err := s.fill(r, n)
	if err != nil {
		t.Fatal(err)
	}
	return sentItems(t, Text, r.whole()), duplicates
}

// The share is exact for any batch size, and duplicates are only of items certainly remembered.
func TestShareOfDuplicatesIsExact(t *testing.T) {
	for _, share := range []float64{0, 0.1, 1.0 / 3, 0.5, 0.99, 1} {
		for _, batch := range []int{1, 7, 100} {
			g := newGenerated(1, 3, share)
			r := newRequest(Text, "a:80", "/prefix", "secret", "a b")
			g.prime(r, batch)
			known, lost := map[string]bool{}, map[string]bool{}
			for _, item := range sentItems(t, Text, r.whole()) {
				known[item] = true
			}
			g.settle(true)
			sum, found, total := 0, 0, 0
			for round := range 200 {
				items, duplicates := take(t, g, batch)
				sum, total = sum+duplicates, total+batch
				remembered := round%3 != 1 // of the other rounds it is not certain
				for _, item := range items {
					if len(item) != 66 {
						t.Fatalf("%q has %d bytes", item, len(item))
					}
					if lost[item] {
						t.Fatalf("%q is sent again, and may be new", item)
					}
					if known[item] {
						found++
					}
				}
				for _, item := range items {
					if known[item] {
						continue
					}
					if remembered {
						known[item] = true
					} else {
						lost[item] = true
					}
				}
				g.settle(remembered)
			}
			if want := share * float64(total); sum != found || float64(sum) < want-1 || float64(sum) > want+1 {
				t.Errorf("share %v, batches of %d: %d duplicates of %d, and %d said", share, batch, found, total, sum)
			}
		}
	}
}

func TestItemsAreNewInEachRunAndConnection(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(5) {
		for connection := range 5 {
			items, _ := take(t, newGenerated(seed, connection, 0), 2000)
			for _, item := range items {
				if u, err := url.Parse(item); err != nil || !strings.HasSuffix(u.Host, ".example.com") || seen[item] {
					t.Fatalf("%q: %v, seen %v", item, err, seen[item])
				}
				seen[item] = true
			}
		}
	}
	a, _ := take(t, newGenerated(7, 1, 0), 100)
	b, _ := take(t, newGenerated(7, 1, 0), 100)
	if !slices.Equal(a, b) {
		t.Error("the same seed makes other items")
	}
}

func TestInputGoesInOrderAndBeginsAgain(t *testing.T) {
	in := NewInput(strings.NewReader("a\r\n\nb\nc"))
	for _, want := range []string{"a b", "c a", "b c", "a b"} {
		if got, duplicates := take(t, in, 2); strings.Join(got, " ") != want || duplicates != -1 {
			t.Errorf("got %q and %d, want %q", got, duplicates, want)
		}
	}
	if got := in.Passes(); got != 3 {
		t.Errorf("%d passes, want 3", got)
	}
	whole := NewInput(strings.NewReader("a\nb\n"))
	if got, _ := take(t, whole, 2); strings.Join(got, " ") != "a b" || whole.Passes() != 1 {
		t.Errorf("got %q in %d passes", got, whole.Passes())
	}
}

// shrinking is a file that is empty when it is read a second time.
type shrinking struct{ *strings.Reader }

func (s shrinking) Seek(int64, int) (int64, error) { return s.Reader.Seek(0, io.SeekEnd) }

func TestInputsThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		file io.ReadSeeker
		want string
	}{
		"empty":     {strings.NewReader("\n\r\n"), "no item"},
		"long line": {strings.NewReader("a\n" + strings.Repeat("x", longestLine+1)), "a line of more than"},
		"shrinking": {shrinking{strings.NewReader("a\n")}, "no item"},
		"broken":    {failing{}, "disk"},
	} {
		r := newRequest(Text, "a:80", "", "", "f")
		if _, err := NewInput(c.file).fill(r, 5); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

type failing struct{ io.Seeker }

func (failing) Read([]byte) (int, error) { return 0, errors.New("disk") }
