package filter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// cutAfter lets a server answer so many batches, and refuse the next.
func cutAfter(s *clienttest.Server, batches int64) {
	asked := new(atomic.Int64)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/filter" || asked.Add(1) != batches+1 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
}

// TestImportGoesOn: an import that fails says what is done, and the same command does the rest.
func TestImportGoesOn(t *testing.T) {
	const n = 45_000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "https://example.com/%d\n", i)
	}
	for _, packed := range []bool{false, true} {
		s := clienttest.NewServer(t)
		file, state := filepath.Join(t.TempDir(), "seen"), filepath.Join(t.TempDir(), "state")
		content := text.String()
		if packed {
			e, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			content = string(e.EncodeAll([]byte(content), nil))
		}
		write(t, file, content)
		cutAfter(s, 2)
		args := []string{"import", "--filter", "ip", "--state", state, file}
		code, out, errOut := cli(t, s, "", args...)
		if code != 1 || out != "" || !strings.Contains(errOut, "(the same command gives the rest)") {
			t.Fatalf("got %d, %q, %q", code, out, errOut)
		}
		have, _ := s.Items("ip", "")
		s.Intercept(nil)
		// Another daemon has nothing of it.
		if code, _, errOut := cli(t, clienttest.NewServer(t), "", args...); code != 1 || !strings.Contains(errOut, "is of another import") {
			t.Errorf("another daemon: got %d, %q", code, errOut)
		}
		if code, out, errOut := cli(t, s, "", args...); code != 0 || out != "" || !strings.HasPrefix(errOut, fmt.Sprintf("%s read, ", thousands(n-have))) {
			t.Errorf("the rest: got %d, %q, %q; the filter had %d", code, out, errOut, have)
		}
		if count, has := s.Items("ip", "https://example.com/44999"); count != n || !has || have == 0 {
			t.Errorf("%d items, had %d", count, have)
		}
		if _, err := os.Stat(state); !os.IsNotExist(err) {
			t.Errorf("the state is left: %v", err)
		}
		// A state of something else is not taken for that of this file.
		write(t, state, `{"source":"other","filter":"ip","lines":7}`)
		if code, _, errOut := cli(t, s, "", args...); code != 1 || !strings.Contains(errOut, "is of another import, of other into ip") {
			t.Errorf("state of another: got %d, %q", code, errOut)
		}
		write(t, state, "{")
		if code, _, errOut := cli(t, s, "", args...); code != 1 || !strings.Contains(errOut, "no state of an import") {
			t.Errorf("no state: got %d, %q", code, errOut)
		}
	}
}

// TestImportOfJoinedExports: of two exports in one file, as cat makes it, the second is not left out in silence.
func TestImportOfJoinedExports(t *testing.T) {
	const one = digestsMark + "1}\n" + "aa\n" + digestsEnd + "1}\n" // as builds between releases wrote it
	for text, want := range map[string]error{one: io.EOF, one + one: &notText{}} {
		in := bufio.NewReader(strings.NewReader(text))
		head, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		next := digestsSource(head, in)
		if item, err := next(); item != "aa" || err != nil {
			t.Errorf("got %q, %v", item, err)
		}
		if _, err := next(); reflect.TypeOf(err) != reflect.TypeOf(want) {
			t.Errorf("%q: got %v, want a %T", text, err, want)
		}
	}
}

// TestImportOfADamagedExport: whichever bit of an export is another one, its import fails.
func TestImportOfADamagedExport(t *testing.T) {
	read := func(text []byte) error {
		in := bufio.NewReader(bytes.NewReader(text))
		head, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		next := digestsSource(head, in)
		for {
			if _, err := next(); err != nil {
				return err
			}
		}
	}
	var text bytes.Buffer
	x := exported{w: &text}
	for _, part := range []string{"00aa\n00ab\n", "01ac 1795986726226\n"} {
		if err := x.add([]byte(digestsMark + "1,\"secret\":\"01\"}\n" + part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	if err := read(text.Bytes()); err != io.EOF {
		t.Fatalf("a sound one: %v\n%s", err, text.Bytes())
	}
	for at := range text.Len() {
		for bit := range 8 {
			damaged := bytes.Clone(text.Bytes())
			damaged[at] ^= 1 << bit
			if read(damaged) == io.EOF {
				t.Errorf("nothing was said of\n%q", damaged)
			}
		}
	}
}

func TestWithoutPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:8000":                         "http://127.0.0.1:8000/",
		"https://me:secret@a.example/filter/, b": "https://a.example/filter,http://b/",
	} {
		if got := withoutPasswords(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func thousands(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

// TestImportOfASet: what scrapy-redis has seen is brought along, whatever the strings are.
func TestImportOfASet(t *testing.T) {
	server := redistest.Start(t)
	db := redistest.Client(t, redis.Options{Addr: server.Addr})
	ctx := context.Background()
	const n = 35_000
	key := "shop:dupefilter/1"
	var all []any
	for i := range n {
		all = append(all, fmt.Sprintf("%040x", i))
	}
	odd := []any{"a\nb", "\ufeffc", "d\r", `"e"`, ""}
	if err := db.SAdd(ctx, key, append(all, odd...)...).Err(); err != nil {
		t.Fatal(err)
	}
	s := clienttest.NewServer(t)
	state := filepath.Join(t.TempDir(), "state")
	cutAfter(s, 2)
	args := []string{"import", "-q", "--filter", "ip", "--state", state, "redis://" + server.Addr + "/0/" + key}
	if code, _, errOut := cli(t, s, "", args...); code != 1 || !strings.Contains(errOut, "(the same command gives the rest)") {
		t.Fatalf("got %d, %q", code, errOut)
	}
	have, _ := s.Items("ip", "")
	s.Intercept(nil)
	code, out, errOut := cli(t, s, "", append(args, "--summary", "json")...)
	var second struct{ Read int }
	if err := json.Unmarshal([]byte(errOut), &second); code != 0 || out != "" || err != nil {
		t.Fatalf("got %d, %q, %q", code, out, errOut)
	}
	count, _ := s.Items("ip", "")
	total := n + len(odd) - 1
	// It begins with the page that was not done as a whole.
	if count != total || have == 0 || second.Read > total-have+2*page {
		t.Errorf("%d items of %d, had %d; then read %d", count, total, have, second.Read)
	}
	for _, item := range append(all, odd[:4]...) {
		if _, has := s.Items("ip", item.(string)); !has {
			t.Fatalf("%q was not brought along", item)
		}
	}
	// A cursor of a server that was restarted means nothing.
	write(t, state, fmt.Sprintf(`{"source":"redis %s, key %s","filter":"ip","server":"other","lines":0,"cursor":7}`, server.Addr, key))
	if code, _, errOut := cli(t, s, "", args...); code != 1 || !strings.Contains(errOut, "or its source has changed since") {
		t.Errorf("restarted: got %d, %q", code, errOut)
	}
}

// A server that is restarted while its set is read does not know the cursor that it gave, and gives other members.
func TestImportOfASetWhoseServerIsRestarted(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	db := redistest.Client(t, redis.Options{Addr: server.Addr})
	const n = 120_000 // more than is read ahead
	all := make([]any, n)
	for i := range all {
		all[i] = fmt.Sprintf("%040x", i)
	}
	if err := db.SAdd(context.Background(), "seen", all...).Err(); err != nil {
		t.Fatal(err)
	}
	s := clienttest.NewServer(t)
	var restarted atomic.Bool
	s.Intercept(func(http.ResponseWriter, *http.Request) bool {
		if !restarted.Swap(true) {
			server.Kill()
			server.Run()
			for db.DBSize(context.Background()).Err() != nil { // it loads what it has
				time.Sleep(time.Millisecond)
			}
		}
		return false
	})
	// The members that are read ahead may be on their way: they are asked for until the server is back.
	code, _, errOut := cli(t, s, "", "import", "-q", "--filter", "ip", "redis://"+server.Addr+"/0/seen?max_retries=10000")
	if count, _ := s.Items("ip", ""); code != 1 || !strings.Contains(errOut, "the server was restarted meanwhile") {
		t.Errorf("got %d, %q, with %d of %d items", code, errOut, count, n)
	}
}

// What cannot be imported is refused with a reason, and without the password of the URL.
func TestImportRefuses(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2hunter2")
	db := redistest.Client(t, redis.Options{Addr: server.Addr, Password: "hunter2hunter2"})
	ctx := context.Background()
	if err := db.SetBit(ctx, "bits", 100, 1).Err(); err != nil {
		t.Fatal(err)
	}
	if err := db.RPush(ctx, "list", "a").Err(); err != nil {
		t.Fatal(err)
	}
	if err := db.SAdd(ctx, "bytes", "\xff\x00").Err(); err != nil {
		t.Fatal(err)
	}
	s := clienttest.NewServer(t)
	at := "redis://:hunter2hunter2@" + server.Addr
	for _, test := range []struct {
		source, want string
		code         int
	}{
		{at + "/0/none", "is not there", 1},
		{at + "/0/bits", "the items cannot be found in bits", 1},
		{at + "/0/list", "is a list; want a set, or a filter of RedisBloom", 1},
		{at + "/0/bytes", "is no text", 1},
		{at + "/bits", "the URL names no key", 2},
		{at + "/x/bits", "want redis://HOST:PORT/DB/KEY", 2},
		{"redis://:hunter2hunter2@%zz/0/bits", "want redis://HOST:PORT/DB/KEY", 2},
		{"redis://" + server.Addr + "/0/bits", "NOAUTH", 1},
		{"redis://:hunter3@" + server.Addr + "/0/bits", "WRONGPASS", 1},
	} {
		code, out, errOut := cli(t, s, "", "import", "--filter", "ip", test.source)
		if code != test.code || out != "" || !strings.Contains(errOut, test.want) || strings.Contains(errOut, "hunter") || strings.Count(errOut, "hint: ") > 1 {
			t.Errorf("%s: got %d, %q, %q; want %d, %q", test.source, code, out, errOut, test.code, test.want)
		}
	}
	if code, _, errOut := cli(t, s, "", "import", at+"/0/bits"); code != 2 || !strings.Contains(errOut, "--filter: want the name") {
		t.Errorf("no filter: got %d, %q", code, errOut)
	}
	t.Setenv("URIFILTER_TYPE", "ip") // the old name of URIFILTER_FILTER
	if code, _, errOut := cli(t, s, "old\n", "import", "-"); code != 0 || !strings.HasPrefix(errOut, "1 read, 1 new") {
		t.Errorf("the filter by its old variable: got %d, %q", code, errOut)
	}
	if code, _, errOut := cli(t, s, "a\n", "import", "--filter", "ip", "--state", "x", "-"); code != 2 || !strings.Contains(errOut, "--state") {
		t.Errorf("state of a pipe: got %d, %q", code, errOut)
	}
	if code, _, errOut := cli(t, s, "a\nb\n", "import", "--filter", "ip", "-"); code != 0 || !strings.HasPrefix(errOut, "2 read, 2 new") {
		t.Errorf("pipe: got %d, %q", code, errOut)
	}
}
