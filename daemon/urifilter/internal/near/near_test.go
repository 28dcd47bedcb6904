package near

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

func newServer(t *testing.T) *clienttest.Server {
	t.Helper()
	server := clienttest.NewServer(t)
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.CreateFilter(t.Context(), "pages", client.FilterSpec{Kind: "simhash"}); err != nil {
		t.Fatal(err)
	}
	return server
}

func TestNearCommand(t *testing.T) {
	server := newServer(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two, short := file("one.txt", "The quick brown fox\n"), file("two.txt", "the QUICK brown -- fox"), file("short.txt", "a.\n")
	const lines = "\ufeff{\"id\":\"a\",\"text\":\"Something quite different\"}\r\n\n {\"text\":\"something... quite, different!\",\"id\":\"b\\tc\"}"
	for _, test := range []struct {
		code     int
		in, want string
		args     []string
	}{
		{0, lines, "new\ta\nnew\t\"b\\tc\"\n", []string{"--look"}},
		{0, lines, "new\ta\nnear\t\"b\\tc\"\t0 a\n", nil},
		{0, lines, "a\n", []string{"--new"}}, // a run that is repeated
		{0, `{"id":"c","text":"SOMETHING QUITE DIFFERENT"}`, "near\tc\t0 a\t...\n", []string{"--look", "--limit", "1", "-"}},
		{0, "", "", nil},
		{0, "", "new\t" + one + "\nnear\t" + two + "\t0 " + one + "\n", []string{"--texts", one, two}},
		{0, "and one from a pipe", "new\t-\n", []string{"--texts", "-"}},
		{0, `{"id":"d","text":"Another one, never seen before"}`, `{"id":"d","fingerprint":"`, []string{"--json", "--look"}},
		{1, "", short + ": ", []string{"--texts", one, short}},
		{1, "", "text_too_short", []string{"--texts", short}},
		{1, "{\"id\":\"e\",\"text\":\"Yet another page\"}\n{\"id\":\"f\",\"txt\":\"\"}\n", "line 2: json: unknown field \"txt\": want {\"id\": ", nil},
		{1, "{\"id\":\"e\",\"text\":\"Yet another page\"} {}\n", "line 1: something follows the document", nil},
		{1, "{\"id\":\"e\",\"text\":\"Yet \xff another\"}", "line 1: not UTF-8", nil},
		{1, `{"id":"e","text":"Yet \ud800 another"}`, `line 1: \ud800 is half a surrogate pair`, nil},
		{1, `{"id":"\ude00\ud83d","text":"Yet another"}`, `line 1: \ude00 is half a surrogate pair`, nil},
		{0, `{"id":"\ud83d\ude00","text":"A smile, and a \\ud800 that is none"}`, "new\t\U0001f600\n", []string{"--look"}},
		{1, "{\"id\":\"e\"}\n", "line 1: want {\"id\"", nil},
		{1, "", "no such file", []string{filepath.Join(dir, "none")}},
		{1, lines, "422 near_not_supported", []string{"--type", "uri"}},
		{1, lines, "422 distance_invalid", []string{"--distance", "9"}},
		{1, lines, "422 distance_invalid", []string{"--distance", "-1"}},
		{1, lines, "422 limit_invalid", []string{"--limit", "-1"}},
		{2, "", "--texts: which files?", []string{"--texts"}},
		{2, "", "--filter: which filter?", []string{"--type", ""}},
	} {
		args := append([]string{"near", "--type", "pages"}, test.args...)
		code, out, errOut := commandtest.Program{New}.Ask(t, server, test.in, args...)
		if code != test.code || code == 0 && !strings.HasPrefix(out, test.want) || !strings.Contains(out+errOut, test.want) {
			t.Errorf("%q: code %d, %q, %s; want %d and %q", test.args, code, out, errOut, test.code, test.want)
		}
	}
}

// Many documents go in batches; an id may occur again in another batch. A failed run reports what
// it has done.
func TestNearInBatches(t *testing.T) {
	server := newServer(t)
	var in strings.Builder
	const n = 2500
	for i := range n {
		fmt.Fprintf(&in, "{\"id\":\"page-%d\",\"text\":\"page number %d\"}\n", i%2000, i)
	}
	code, out, errOut := commandtest.Program{New}.Ask(t, server, in.String(), "near", "--type", "pages")
	if code != 0 || strings.Count(out, "new\t") != n {
		t.Fatalf("code %d, %d new, %s", code, strings.Count(out, "new\t"), errOut)
	}
	in.WriteString("nothing\n")
	code, _, errOut = commandtest.Program{New}.Ask(t, server, in.String(), "near", "--type", "pages")
	if code != 1 || !strings.Contains(errOut, "line 2,501: ") || !strings.Contains(errOut, "2,500 documents are remembered, and no more") || !strings.Contains(errOut, "may be repeated") {
		t.Errorf("code %d, %s", code, errOut)
	}
}

// A document is answered when it comes, not when the input ends.
func TestNearWhileTheInputIsOpen(t *testing.T) {
	server := newServer(t)
	t.Setenv("URIFILTER_URL", server.URL)
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- commandtest.Program{New}.Run(t.Context(), []string{"near", "--type", "pages"}, in, out, io.Discard)
		out.Close()
	}()
	for i := range 3 {
		if _, err := fmt.Fprintf(write, "{\"id\":\"%d\",\"text\":\"page number %d\"}\n", i, i); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("new\t0\n"))
		if _, err := io.ReadFull(read, got); err != nil || string(got) != fmt.Sprintf("new\t%d\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	write.Close()
	if code := <-ended; code != 0 {
		t.Errorf("code %d", code)
	}
}

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestNearOnAFullDisk(t *testing.T) {
	t.Setenv("URIFILTER_URL", newServer(t).URL)
	var says strings.Builder
	code := commandtest.Program{New}.Run(t.Context(), []string{"near", "--filter", "pages"}, strings.NewReader(`{"id":"a","text":"Something quite different"}`), full{}, &says)
	if code != 1 || strings.Count(says.String(), syscall.ENOSPC.Error()) != 1 {
		t.Errorf("%d, %q", code, says.String())
	}
}
