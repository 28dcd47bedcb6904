package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/load"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

// askLoad runs bench load against a server. It stops the run, as with Ctrl-C, after the server has
// had this many batches; 0: the run lasts for its set time.
func askLoad(t *testing.T, s *clienttest.Server, batches int64, args ...string) (code int, out, errOut string) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var n atomic.Int64
	if batches > 0 {
		s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			// Later ones stop it too: none is answered before the run is stopped.
			if r.URL.Path == "/api/v1/filter" && n.Add(1) >= batches {
				stop(command.Signaled{Signal: syscall.SIGINT})
			}
			return false
		})
	}
	var o, e bytes.Buffer
	args = append([]string{"bench", "load", "--server", s.URL}, args...)
	code = commandtest.Program{New}.Run(ctx, args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

const untilStopped = "--duration=1h"

// filterNames returns the names of the server's filters.
func filterNames(t *testing.T, s *clienttest.Server) string {
	t.Helper()
	res, err := http.Get(s.URL + "/api/v1/filters")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(regexp.MustCompile(`"name":"[a-z_0-9-]*"`).FindAllString(string(text), -1), " ")
}

// For each share and in each form, the server finds exactly the duplicates that were sent.
func TestLoadSendsTheShareOfDuplicatesThatItSays(t *testing.T) {
	for _, protocol := range []string{"json", "text", "ndjson"} {
		for _, share := range []float64{0, 0.25, 1.0 / 3, 1} {
			s := clienttest.NewServer(t)
			code, out, errOut := askLoad(t, s, 40, untilStopped, "--warm-up=0s", "--protocol", protocol, "--duplicates", fmt.Sprint(share),
				"--batch=30", "--connections=3", "--filter=ip", "--json")
			if code != 130 || !strings.Contains(errOut, "the items of this run stay in the filter ip\n") {
				t.Fatalf("got %d, %q", code, errOut)
			}
			var r loadReport
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if r.Batches < 35 || r.Batches > 40 || r.Items != 30*r.Batches || len(r.Errors) > 0 || !r.Interrupted || !r.Kept {
				t.Errorf("%s, %v: %+v", protocol, share, r.Result)
			}
			sent := *r.SentDuplicateShare
			if r.DuplicateShare != sent || sent < share-0.01 || sent > share+0.01 {
				t.Errorf("%s: %v of the items were duplicates, %v were sent, %v asked for", protocol, r.DuplicateShare, sent, share)
			}
			fresh := int(float64(r.Items)*(1-sent) + 0.5)
			if items, _ := s.Items("ip", ""); items != fresh+3*30 { // with those before the run
				t.Errorf("%s, %v: the filter has %d items, want %d", protocol, share, items, fresh+3*30)
			}
		}
	}
}

func TestLoadHasAFilterOfItsOwnAndDropsIt(t *testing.T) {
	s := clienttest.NewServer(t)
	before := filterNames(t, s)
	picture := filepath.Join(t.TempDir(), "a.svg")
	code, out, errOut := askLoad(t, s, 0, "--duration=1s", "--warm-up=1ms", "--batch=20", "--plot", picture, "--capacity=5k")
	if code != 0 || errOut != "" {
		t.Fatalf("got %d, %q", code, errOut)
	}
	for _, want := range []string{"closed loop, 4 connections, batches of 20 as json", "\nitems/s", "50.0 % were sent\n", "\nas measured", "\ncorrected", "\nfailed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), ">p90<") || !strings.Contains(string(text), "percentile of the batches") {
		t.Errorf("picture: %v", err)
	}
	if code, _, errOut := askLoad(t, s, 10, untilStopped, "--batch=20"); code != 130 || errOut != "urifilter: stopped by a signal: interrupt\n" {
		t.Errorf("stopped: got %d, %q", code, errOut)
	}
	if after := filterNames(t, s); after != before {
		t.Errorf("filters before %s, after %s", before, after)
	}
	made := 0
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, "PUT /api/v1/filters/bench-load-") {
			made++
		}
	}
	if made != 2 {
		t.Errorf("%d filters were made, want 2: %q", made, s.Requests())
	}
}

func TestLoadInAnOpenLoop(t *testing.T) {
	s := clienttest.NewServer(t)
	code, out, errOut := askLoad(t, s, 0, "--duration=1s", "--warm-up=0s", "--batch=5", "--rate=1k")
	if code != 0 || errOut != "" || !strings.Contains(out, "open loop, 1,000 items/s due, 4 connections") ||
		!strings.Contains(out, "\nfrom when it was due") || !strings.Contains(out, "\nfrom when it was sent") || !strings.Contains(out, "generator's own delay") {
		t.Errorf("got %d, %s%s", code, out, errOut)
	}
}

func TestLoadOfAFile(t *testing.T) {
	s := clienttest.NewServer(t)
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte("a\nb\r\n\nc \"d\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := askLoad(t, s, 20, untilStopped, "--warm-up=0s", "--input", file, "--batch=2", "--filter=ip")
	if code != 130 || !strings.Contains(out, "of the input's items") || !regexp.MustCompile(`warning: the input was read \d+ times`).MatchString(out) ||
		!strings.Contains(out, "the filter ip keeps the items") {
		t.Errorf("got %d, %s%s", code, out, errOut)
	}
	for _, item := range []string{"a", "b", `c "d"`} {
		if n, has := s.Items("ip", item); n != 3 || !has {
			t.Errorf("%q: %v, of %d items", item, has, n)
		}
	}
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := askLoad(t, s, 0, "--input", file); code != 1 || !strings.Contains(errOut, "input: there is no item in it") {
		t.Errorf("an empty file: got %d, %q", code, errOut)
	}
}

func TestLoadCountsWhatFails(t *testing.T) {
	s := clienttest.NewServer(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var n atomic.Int64
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/filter" {
			return false
		}
		switch i := n.Add(1); {
		case i == 20:
			stop()
		case i%4 == 0:
			clienttest.Problem(w, http.StatusServiceUnavailable, "overloaded", "later", nil)
			return true
		}
		return false
	})
	var o, e bytes.Buffer
	code := commandtest.Program{New}.Run(ctx, []string{"bench", "load", "--server", s.URL, untilStopped, "--warm-up=0s", "-c1", "-b10"}, strings.NewReader(""), &o, &e)
	if code != 1 || !regexp.MustCompile(`(?m)^failed +4  overloaded: later$`).MatchString(o.String()) {
		t.Errorf("got %d, %s%s", code, o.String(), e.String())
	}
}

func TestVerdictOfALoad(t *testing.T) {
	for _, c := range []struct {
		result load.Result
		want   string
	}{
		{load.Result{Batches: 1}, ""},
		{load.Result{}, "no batch was answered\nhint: give it a longer --duration"},
		{load.Result{Batches: 7, Errors: []load.ErrorCount{{Code: "overloaded", Batches: 1200}, {Code: "timeout", Batches: 3}}}, "1,203 of 1,210 batches failed: 1,200 overloaded, 3 timeout"},
		{load.Result{Errors: []load.ErrorCount{{Code: "timeout", Batches: 3}}}, "3 of 3 batches failed: 3 timeout"},
	} {
		got := ""
		if err := verdict(&c.result); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestLoadSaysWhatToDo(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--protocol=resp", "--resp=http://x"}, 2, "--resp: redis: invalid URL scheme: http"},
		{[]string{"--protocol=xml"}, 2, `--protocol "xml": want json, bits, text, ndjson, resp`},
		{[]string{"--connections=0"}, 2, "--connections 0: want 1 to 10000"},
		{[]string{"--duplicates=1.5"}, 2, "--duplicates 1.5: want a share"},
		{[]string{"--duplicates=NaN"}, 2, "--duplicates NaN: want a share"},
		{[]string{"--duration=0s"}, 2, "--duration 0s: want 1ms"},
		{[]string{"--plot=a.gif"}, 2, `--plot "a.gif": want a name`},
		{[]string{"--input=x", "--duplicates=0.1"}, 2, "none of the others can be"},
		{[]string{"--input=" + filepath.Join(t.TempDir(), "none")}, 1, "--input: open"},
		{[]string{"--input=" + t.TempDir()}, 2, "want a file"},
		{[]string{"--filter=nix"}, 1, "hint: known filters: ip,"},
		{[]string{"--server=a:1,b:1"}, 2, "--server: want one daemon, not several"},
		{[]string{"--server=http://127.0.0.1:1"}, 1, "hint: is the daemon running?"},
		{[]string{"--protocol=resp", "--resp=redis://127.0.0.1:1"}, 1, "hint: set resp.listen of the daemon, and name that port with --resp"},
	} {
		if code, out, errOut := askLoad(t, s, 0, c.args...); code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: got %d, %q%s", c.args, code, out, errOut)
		}
	}
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPut:
			clienttest.Problem(w, http.StatusForbidden, "forbidden", "want the scope admin", nil)
		case r.URL.Path == "/api/v1/filter":
			clienttest.Problem(w, http.StatusRequestEntityTooLarge, "too_many_items", "more than 5 items", nil)
		default:
			return false
		}
		return true
	})
	if code, _, errOut := askLoad(t, s, 0); code != 1 || !strings.Contains(errOut, "hint: give a token of the scope admin; with --filter NAME") {
		t.Errorf("no filter may be made: got %d, %q", code, errOut)
	}
	if code, _, errOut := askLoad(t, s, 0, "--filter=ip"); code != 1 || !strings.Contains(errOut, "first batch: too_many_items: more than 5 items\nhint: give a smaller --batch") {
		t.Errorf("batches are too large: got %d, %q", code, errOut)
	}
}
