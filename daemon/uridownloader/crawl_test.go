package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
)

// crawlProcess is the program with the command crawl, as a process that can be killed.
func crawlProcess(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"crawl"}, args...)...)
	cmd.Env = append(os.Environ(), "URIDOWNLOADER_TEST_PROGRAM=1")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// crawlKilled crawls with at least that many kills at random moments, and checks what each
// completed crawl has stored.
func crawlKilled(t *testing.T, kills, pages, threads int) {
	server := httptest.NewServer(&crawltest.Site{Pages: 10 * pages})
	t.Cleanup(server.Close)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, uint64(threads)))
	order := func(dir string) string {
		t.Helper()
		if err := crawltest.Check(dir, pages); err != nil {
			t.Errorf("%d threads: %v", threads, err)
		}
		all, err := crawltest.Records(dir)
		if err != nil {
			t.Fatal(err)
		}
		var uris []string
		for _, r := range all { // the site makes new session ids each time
			uri, _, _ := strings.Cut(r.URI, ";")
			uris = append(uris, uri)
		}
		return strings.Join(uris, "\n")
	}
	begin := func(dir string) []string {
		return []string{server.URL + "/", "--out", dir, "--allow-private", "--delay", "0", "--attempts", "1", "--threads", strconv.Itoa(threads), "--max-pages", strconv.Itoa(pages), "--warc"}
	}
	whole := filepath.Join(t.TempDir(), "whole")
	cmd, out := crawlProcess(t, begin(whole)...)
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	spent, want := time.Since(began), order(whole)
	for killed := 0; killed < kills; {
		dir := filepath.Join(t.TempDir(), "killed")
		for done := false; !done; {
			cmd, out := crawlProcess(t, resumed(dir, begin(dir))...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Duration(random.Int64N(int64(spent))), func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			timer.Stop()
			switch {
			case err == nil:
				done = true
			case cmd.ProcessState.ExitCode() == -1:
				killed++
			case strings.Contains(out.String(), "there is a crawl in this folder"): // killed before it had an index
				if cmd, out := crawlProcess(t, "--resume", "--out", dir, "--max-pages", strconv.Itoa(pages)); cmd.Run() != nil {
					t.Fatalf("resumed: %s", out)
				}
				done = true
			default:
				t.Fatalf("%v\n%s", err, out)
			}
		}
		t.Logf("%d pages with %d threads, %d kills so far", pages, threads, killed)
		if got := order(dir); threads == 1 && got != want {
			t.Errorf("killed, it has stored\n%s\nwant\n%s", got, want)
		}
	}
}

// resumed returns the arguments to continue a crawl, or those to begin it if it was killed before that.
func resumed(dir string, begin []string) []string {
	if _, err := os.Stat(filepath.Join(dir, "index.ndjson")); err == nil {
		return []string{"--resume", "--out", dir}
	}
	return begin
}

func TestCrawlKilled(t *testing.T) {
	t.Parallel()
	crawlKilled(t, 2, 60, 1)
	crawlKilled(t, 2, 60, 8)
}

func TestSystemCrawlKilled(t *testing.T) {
	t.Run("1 thread", func(t *testing.T) { t.Parallel(); crawlKilled(t, 20, 150, 1) })
	t.Run("16 threads", func(t *testing.T) { t.Parallel(); crawlKilled(t, 30, 500, 16) })
}

func TestCrawlCommand(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&crawltest.Site{Pages: 500})
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "site")
	try := func(code int, want string, args ...string) string {
		t.Helper()
		cmd, out := crawlProcess(t, args...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), want) {
			t.Errorf("crawl %q: exit code %d, want %d; output, want %q in it:\n%s", args, got, code, want, out)
		}
		return out.String()
	}
	fast := []string{server.URL, "--allow-private", "--delay", "0", "--out", dir}
	try(2, "no seed: want one URI")
	try(2, `seed "example.com": want a URI with its scheme, such as https://example.com`, "example.com")
	try(2, "--max-pages 0: want 1 or more\n--scope \"x\": want host, domain, prefix, all", server.URL, "--max-pages", "0", "--scope", "x")
	try(2, "--resume: want --out", "--resume")
	try(1, "there is no crawl in this folder", "--resume", "--out", dir)
	try(1, "no page was stored: refused_address: ", server.URL, "--out", dir+"2")
	try(0, "20 pages\n", append(fast, "--max-pages", "20", "--graph", "csv")...)
	if text, err := os.ReadFile(filepath.Join(dir, "graph.csv")); err != nil || bytes.Count(text, []byte("\n")) < 100 {
		t.Errorf("graph.csv: %d bytes, %v", len(text), err)
	}
	if err := os.Remove(filepath.Join(dir, "graph.csv")); err != nil {
		t.Error(err)
	}
	try(1, "there is a crawl in this folder", fast...)
	try(2, `--scope all: the crawl was begun with "host", which stays`, "--resume", "--out", dir, "--scope", "all")
	try(1, "--max-pages 5: 20 pages are stored already", "--resume", "--out", dir, "--max-pages", "5")
	lines := strings.Split(strings.TrimSpace(try(0, `"event":"summary"`, "--resume", "--out", dir, "--max-pages", "30", "--json")), "\n")
	var last struct {
		Event  string
		Done   bool
		Stored int
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || !last.Done || last.Stored != 30 {
		t.Errorf("%+v, %v", last, err)
	}
	if err := crawltest.Check(dir, 30); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "graph.csv")); err != nil { // --graph is kept
		t.Error(err)
	}
}
