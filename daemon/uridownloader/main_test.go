package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// The test binary is the program, too, so that it can be killed.
func TestMain(m *testing.M) {
	if child.Asked(os.Args[1:]) {
		os.Exit(runMain())
	}
	if os.Getenv("URIDOWNLOADER_TEST_PROGRAM") != "" {
		_ = os.Unsetenv("URIDOWNLOADER_TEST_PROGRAM")
		os.Exit(runMain())
	}
	os.Exit(m.Run())
}

// process is a process that serves.
type process struct {
	t       *testing.T
	dir     string
	addr    string
	program string // "": the test binary
	testserver.Process
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir()}
	p.start(args...)
	t.Cleanup(p.Kill)
	return p
}

func (p *process) start(args ...string) {
	p.t.Helper()
	for {
		if p.addr == "" {
			p.addr = testserver.Free(p.t)
		}
		cmd := exec.Command(cmp.Or(p.program, os.Args[0]), append([]string{"serve", "--data-dir", filepath.Join(p.dir, "data"), "--listen", p.addr, "--allow-private"}, args...)...)
		if p.program == "" {
			cmd.Env = append(os.Environ(), "URIDOWNLOADER_TEST_PROGRAM=1")
		}
		if p.Start(p.t, cmd, filepath.Join(p.dir, "log"), []string{`"msg":"ready"`}, []string{"address already in use"}) {
			return
		}
		p.addr = "" // another process has it now
	}
}

// run runs a command that calls the process, and returns its exit code, output and errors.
func (p *process) run(in string, args ...string) (int, string, string) {
	var out, errOut bytes.Buffer
	code := run(context.Background(), append(args, "--server", "http://"+p.addr), strings.NewReader(in), &out, &errOut)
	return code, out.String(), errOut.String()
}

// must runs a command that has to succeed.
func (p *process) must(in string, args ...string) string {
	p.t.Helper()
	code, out, errOut := p.run(in, args...)
	if code != 0 {
		p.t.Fatalf("%q: exit code %d: %s", args, code, errOut)
	}
	return out
}

// tasks counts the tasks of a job by state; nil if the store does not answer at present, as one on
// a busy machine.
func (p *process) tasks(job string) map[string]int {
	p.t.Helper()
	var j struct{ Tasks map[string]int }
	code, out, errOut := p.run("", "job", "show", job, "--json")
	if code != 0 && strings.Contains(errOut, "503 store_unavailable") {
		return nil
	}
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		p.t.Fatalf("exit code %d: %s%v", code, errOut, err)
	}
	return j.Tasks
}

// settled waits until n tasks of a job are done or have failed.
func (p *process) settled(job string, n int) map[string]int {
	p.t.Helper()
	for deadline := time.Now().Add(15 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		tasks := p.tasks(job)
		if tasks["done"]+tasks["failed"] == n {
			return tasks
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			p.t.Fatalf("after 15 min: %v, want %d that are settled; the log:\n%s", tasks, n, log)
		}
	}
}

// site is a web server: /page/N is a page, each tenth of them is missing, /private is forbidden to robots.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func newSite(t *testing.T) *site {
	s := &site{asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		s.mu.Unlock()
		switch {
		case r.URL.Path == "/robots.txt":
			_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
		case strings.HasSuffix(r.URL.Path, "7"):
			http.Error(w, "gone", http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprintf(w, "<p>%s</p>", r.URL.Path)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) pages(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "%s/page/%d\n", s.URL, i)
	}
	return list.String()
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The ten-line start of the manual: a job of 1,000 URIs, its results, and a second job that gets
// only new URIs.
func TestAJobFromItsFileToItsData(t *testing.T) {
	s := newSite(t)
	p := start(t)
	write(t, p.dir, "uris.txt", s.pages(1000)+s.URL+"/private/x\n")
	job := write(t, p.dir, "news.yaml", "name: news\nfilter: uri_download\nuris: uris.txt\nsetting: {delay: 0s, concurrency: 20, dispatch: 1000}\n")
	if out := p.must("", "job", "add", job); !strings.Contains(out, "job news: version 1 is stored\n1,001 URIs: 1,001 added") {
		t.Errorf("job add: %s", out)
	}
	if got := p.settled("news", 1001); got["done"] != 900 || got["failed"] != 101 {
		t.Errorf("tasks: %v, want 900 done and 101 failed", got)
	}
	if out := p.must("", "job", "list"); !strings.Contains(out, "900") || !strings.Contains(out, "101") {
		t.Errorf("job list: %s", out)
	}
	failed := p.must("", "tasks", "news", "--state", "failed")
	if strings.Count(failed, "404 Not Found") != 100 || strings.Count(failed, "robots.txt of the host forbids it") != 1 {
		t.Errorf("failed: %s", failed)
	}
	if out := p.must("", "job", "retry", "news", "--reason", "statsu"); out != "0 tasks wait again; other failed tasks, by reason: 100 status, 1 robots\n" {
		t.Errorf("a retry for a mistyped reason: %s", out)
	}
	if n := strings.Count(p.must("", "logs", "news"), "\n"); n != 1001 {
		t.Errorf("%d lines of logs", n)
	}
	id, _, _ := strings.Cut(p.must("", "data", "news", "--limit", "1"), " ")
	if out := p.must("", "data", "body", "news", id); !strings.HasPrefix(out, "<p>/page/") {
		t.Errorf("body: %q", out)
	}
	s.mu.Lock()
	for path, n := range s.asked {
		if n != 1 || strings.HasPrefix(path, "/private") {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	s.mu.Unlock()
	other := write(t, p.dir, "other.yaml", "name: other\nfilter: uri_download\nuris: ["+s.URL+"/page/1, "+s.URL+"/new]\nsetting: {delay: 0s}\n")
	if out := p.must("", "job", "add", other); !strings.Contains(out, "2 URIs: 1 added, 1 seen by its filter") {
		t.Errorf("a second job: %s", out)
	}
	p.settled("other", 1)
	if out := p.must(s.URL+"/one\n\n"+s.URL+"/two\n", "job", "uris", "other"); !strings.Contains(out, "2 URIs: 2 added") {
		t.Errorf("job uris: %s", out)
	}
	p.settled("other", 3)
	p.must("", "job", "pause", "other")
	p.must(s.URL+"/three\n", "job", "uris", "other")
	p.must("", "job", "resume", "other")
	p.settled("other", 4)
	if code, _, errOut := p.run("", "job", "drop", "other"); code != 2 || !strings.Contains(errOut, "--confirm other") {
		t.Errorf("drop without --confirm: %d, %s", code, errOut)
	}
	p.must("", "job", "drop", "other", "--confirm", "other")
	if code, _, errOut := p.run("", "job", "show", "other"); code != 1 || !strings.Contains(errOut, "404 unknown_job") || !strings.Contains(errOut, "hint: `uridownloader job list`") {
		t.Errorf("a job that was dropped: %d, %s", code, errOut)
	}
}

// kill -9 at any moment, while URIs come in and pages are fetched: each URI has one result with its
// own page, or one reason, and none is stuck. No restart waits for the leases of the dead.
func TestKilledAtAnyMoment(t *testing.T) {
	const pages, kills = 4000, 8
	s := newSite(t)
	p := start(t)
	job := write(t, p.dir, "news.yaml", "name: news\nfilter: uri_download\nsetting: {delay: 0s, concurrency: 20, dispatch: 500, max_download_times: 20}\n")
	p.must("", "job", "add", job)
	list := s.pages(pages)
	added := make(chan struct{})
	go func() {
		defer close(added)
		for { // as a script would: resend everything until it is answered
			if code, _, _ := p.run(list, "job", "uris", "news"); code == 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	random := rand.New(rand.NewPCG(1, 2))
	for range kills {
		time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
		p.Kill()
		p.start()
	}
	<-added
	got := p.settled("news", pages)
	if got["done"] != pages*9/10 || got["failed"] != pages/10 {
		t.Errorf("tasks: %v", got)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(p.must("", "data", "news", "--json")) {
		var d struct{ Task, URI string }
		if err := json.Unmarshal([]byte(line), &d); err != nil || seen[d.URI] {
			t.Fatalf("%s: %v, there before: %t", line, err, seen[d.URI])
		}
		seen[d.URI] = true
		if len(seen)%100 == 0 {
			want := "<p>" + strings.TrimPrefix(d.URI, s.URL) + "</p>"
			if body := p.must("", "data", "body", "news", d.Task); body != want {
				t.Errorf("%s: %q, want %q", d.URI, body, want)
			}
		}
	}
	if len(seen) != pages*9/10 {
		t.Errorf("%d URIs have data", len(seen))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, n := range s.asked {
		if n > kills+1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}

// Faults are reported before anything is stored, with file, line and key, and the next step.
func TestFaults(t *testing.T) {
	p := start(t)
	bad := write(t, p.dir, "bad.yaml", "name: news\npriority: 12\nsetting: {timeout: 6m}\n")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{1, "bad.yaml:2: priority: 12: want 0 to 9", []string{"job", "add", bad}},
		{1, "bad.yaml:3: setting.timeout: 6m0s: want 100ms to 5m0s", []string{"job", "add", bad}},
		{1, "no such file", []string{"job", "add", filepath.Join(p.dir, "none.yaml")}},
		{1, "uris: open", []string{"job", "add", write(t, p.dir, "nolist.yaml", "name: a\nuris: none.txt")}},
		{1, `uris[0]: "x": want http://`, []string{"job", "add", write(t, p.dir, "baduri.yaml", "name: a\nuris: [x]")}},
		{1, "unknown_filter: filter \"nobody\": unknown; known: ", []string{"job", "add", write(t, p.dir, "nofilter.yaml", "name: a\nfilter: nobody")}},
		{1, "404 unknown_job", []string{"tasks", "news"}},
		{1, "400 invalid_parameter", []string{"tasks", "news2", "--state", "lost"}},
		{2, "want --confirm news", []string{"job", "drop", "news"}},
		{1, "hint: `uridownloader job change FILE`", []string{"job", "add", filepath.Join(p.dir, "news2.yaml")}},
	} {
		if c.args[0] == "tasks" && c.args[1] == "news2" {
			p.must("", "job", "add", write(t, p.dir, "news2.yaml", "name: news2"))
		}
		if code, out, errOut := p.run("", c.args...); code != c.code || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%q: %d, %q, %s, want %q", c.args, code, out, errOut, c.want)
		}
	}
	if out := p.must("", "job", "list"); strings.Count(out, "\n") != 2 {
		t.Errorf("jobs: %s", out)
	}
	// Only one process may have the data.
	cmd := exec.Command(os.Args[0], "serve", "--data-dir", filepath.Join(p.dir, "data"), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "URIDOWNLOADER_TEST_PROGRAM=1")
	if text, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(text), "hint: one process that serves all roles uses a data directory at a time") {
		t.Errorf("a second process: %v, %s", err, text)
	}
}

// Without --allow-private no job reaches this machine, not even by a redirect.
func TestPrivateAddressesAreRefused(t *testing.T) {
	s := newSite(t)
	p := start(t, "--allow-private=false")
	p.must("", "job", "add", write(t, p.dir, "a.yaml", "name: a\nuris: ["+s.URL+"/page/1]\nsetting: {delay: 0s, robots: false}"))
	if got := p.settled("a", 1); got["failed"] != 1 {
		t.Errorf("tasks: %v", got)
	}
	if out := p.must("", "tasks", "a"); !strings.Contains(out, "refused_address: ") || len(s.asked) != 0 {
		t.Errorf("tasks: %s; asked for: %v", out, s.asked)
	}
}

// Every command has help with an example.
func TestHelp(t *testing.T) {
	var walk func(args []string)
	commands := 0
	walk = func(args []string) {
		cmd, _, err := newRootCommand().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		commands++
		if cmd.Short == "" || cmd.Example == "" && cmd.Runnable() && cmd.Name() != "help" && cmd.Parent().Name() != "completion" {
			t.Errorf("%q: no example", args)
		}
		for _, sub := range cmd.Commands() {
			walk(append(append([]string{}, args...), sub.Name()))
		}
	}
	walk(nil)
	if commands < 20 {
		t.Errorf("only %d commands", commands)
	}
}

// TestMistyped: each fault of a command line is exit code 2 with a message that names it.
func TestMistyped(t *testing.T) {
	for args, want := range map[string]string{
		"joob":               `unknown command "joob"; did you mean job?`,
		"crawl --max-page 3": "unknown flag: --max-page; did you mean --max-pages?",
		"help nonsense":      `unknown command "nonsense"`,
		"completion tcsh":    `unknown command "tcsh"`,
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), strings.NewReader(""), &out, &errOut); code != 2 || out.Len() > 0 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: code %d, %q, %q; want 2 and %q", args, code, &out, &errOut, want)
		}
	}
}
