package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// role starts a process with one role on a data directory, beside a filter.
func role(t *testing.T, dir, filter string, args ...string) *process {
	t.Helper()
	return environ(nil).role(t, "", dir, filter, args...)
}

// environ are additional environment variables of processes: NAME=value.
type environ []string

// role is the function role with these variables, and with a program; "" is the test binary.
func (e environ) role(t *testing.T, program, dir, filter string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir()}
	for {
		p.addr = testserver.Free(t)
		cmd := newProgram(append(args, "--data-dir", dir, "--listen", p.addr)...)
		if program != "" {
			cmd.Path, cmd.Args[0], cmd.Env = program, program, os.Environ()
		}
		cmd.Env = append(append(cmd.Env, "URIDOWNLOADER_FILTER_URL="+filter), e...)
		if p.Start(t, cmd, filepath.Join(p.dir, "log"), []string{`"msg":"ready"`}, []string{"address already in use"}) {
			t.Cleanup(p.Kill)
			return p
		}
	}
}

// newProgram is the program with a command line.
func newProgram(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "URIDOWNLOADER_TEST_PROGRAM=1")
	return cmd
}

// get calls a process, and returns the status and the answer.
func (p *process) get(path string) (int, string) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.addr + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ready waits until the process says that it is ready: its store may be too busy to answer the first time.
func (p *process) ready() {
	p.t.Helper()
	testserver.Await(p.t, "the process is ready", func() bool {
		status, text := p.get("/readyz")
		return status == 200 && strings.Contains(text, "ready")
	})
}

// logged waits until the process has logged a text.
func (p *process) logged(text string) {
	p.t.Helper()
	testserver.Await(p.t, "it says: "+text, func() bool {
		log, err := os.ReadFile(filepath.Join(p.dir, "log"))
		if err != nil {
			p.t.Fatal(err)
		}
		return strings.Contains(string(log), text)
	})
}

// Two masters take in the same URIs for two jobs with one filter: each URI becomes a task of one of them.
func TestTwoMasters(t *testing.T) {
	filter := clienttest.NewServer(t)
	dir := filepath.Join(t.TempDir(), "data")
	masters := []*process{role(t, dir, filter.URL, "master"), role(t, dir, filter.URL, "master")}
	const uris, parts = 2000, 10
	var list []string
	for i := range uris {
		list = append(list, fmt.Sprintf("http://a.example/%d", i))
	}
	for i, m := range masters {
		m.must("", "job", "add", write(t, m.dir, "job.yaml", fmt.Sprintf("name: job%d\nfilter: uri_download\n", i)))
	}
	var sending sync.WaitGroup
	for i, m := range masters {
		for part := range slices.Chunk(list, uris/parts) {
			sending.Go(func() {
				if code, _, errOut := m.run(strings.Join(part, "\n"), "job", "uris", fmt.Sprint("job", i)); code != 0 {
					t.Errorf("master %d: exit code %d: %s", i, code, errOut)
				}
			})
		}
	}
	sending.Wait()
	var counts [2]int
	for i, m := range masters {
		counts[i] = m.tasks(fmt.Sprint("job", i))["waiting"]
	}
	if n, _ := filter.Items("uri_download", ""); counts[0]+counts[1] != uris || n != uris {
		t.Errorf("%d tasks of %d URIs, the filter has %d", counts, uris, n)
	}
}

// Master, dispatcher and two workers are separate processes on one data directory. The filter
// that they use is another one.
func TestRolesApart(t *testing.T) {
	s, filter := newSite(t), clienttest.NewServer(t)
	dir := filepath.Join(t.TempDir(), "data")
	master := role(t, dir, filter.URL, "master")
	dispatcher := role(t, dir, filter.URL, "dispatch")
	workers := []*process{role(t, dir, filter.URL, "worker", "--allow-private"), role(t, dir, filter.URL, "worker", "--allow-private")}
	job := write(t, master.dir, "news.yaml", "name: news\nfilter: uri_download\nsetting: {delay: 0s, concurrency: 20, dispatch: 1000}\n")
	master.must("", "job", "add", job)
	master.must(s.pages(300), "job", "uris", "news")
	if got := master.settled("news", 300); got["done"] != 270 || got["failed"] != 30 {
		t.Errorf("tasks: %v", got)
	}
	if n, has := filter.Items("uri_download", s.URL+"/page/1"); n != 300 || !has {
		t.Errorf("the filter has %d items, page 1: %t", n, has)
	}
	for path, n := range s.asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	for _, p := range append([]*process{dispatcher}, workers...) {
		for path, want := range map[string]string{"/livez": "alive", "/metrics": "uridownloader_"} {
			if status, text := p.get(path); status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s: %d, %s", path, status, text)
			}
		}
		p.ready()
		if status, _ := p.get("/api/v1/jobs"); status != 404 {
			t.Errorf("jobs are told by what is no master: %d", status)
		}
	}
	// A worker that stops gives its hosts to the other.
	workers[0].Signal(syscall.SIGTERM)
	workers[0].logged(`"msg":"stopped"`)
	master.must(s.URL+"/more\n", "job", "uris", "news")
	master.settled("news", 301)
	// A manual round, beside a working dispatcher and after it.
	once := func() string {
		t.Helper()
		text, err := newProgram("dispatch", "--once", "--data-dir", dir).CombinedOutput()
		if err != nil {
			t.Fatalf("dispatch --once: %v, %s", err, text)
		}
		return string(text)
	}
	if text := once(); !strings.Contains(text, "another dispatcher is active") {
		t.Errorf("dispatch --once: %s", text)
	}
	dispatcher.Signal(syscall.SIGTERM)
	dispatcher.logged(`"msg":"stopped"`)
	master.must(s.URL+"/once\n", "job", "uris", "news")
	if text := once(); !strings.HasPrefix(text, "1 handed out; 0 waiting, 1 ready, 0 running\n") {
		t.Errorf("dispatch --once: %s", text)
	}
	master.settled("news", 302)
	// A process with all roles needs the folder to itself.
	if text, err := newProgram("serve", "--data-dir", dir, "--listen", "127.0.0.1:0").CombinedOutput(); err == nil || !strings.Contains(string(text), "hint: one process that serves all roles uses a data directory at a time") {
		t.Errorf("serve beside the roles: %v, %s", err, text)
	}
}

// Redis only tells roles that there is work: it is emptied, killed, and finally stays away, and
// nothing is stuck or done twice.
func TestRolesLoseRedis(t *testing.T) {
	t.Parallel()
	s, filter, redis := newSite(t), clienttest.NewServer(t), redistest.Start(t)
	env, dir := environ{"URIDOWNLOADER_REDIS_URL=redis://" + redis.Addr}, filepath.Join(t.TempDir(), "data")
	master := env.role(t, "", dir, filter.URL, "master")
	dispatcher := env.role(t, "", dir, filter.URL, "dispatch")
	worker := env.role(t, "", dir, filter.URL, "worker", "--allow-private")
	job := write(t, master.dir, "news.yaml", "name: news\nsetting: {delay: 0s, concurrency: 20, dispatch: 20}\n")
	master.must("", "job", "add", job)
	pages := strings.SplitAfter(s.pages(150), "\n")
	for i, lose := range []func(){func() { redis.CLI("FLUSHALL") }, redis.Kill, func() {}} {
		master.must(strings.Join(pages[50*i:50*(i+1)], ""), "job", "uris", "news")
		lose()
		master.settled("news", 50*(i+1))
	}
	for path, n := range s.asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	for _, p := range []*process{dispatcher, worker} {
		p.logged("redis cannot be used")
		p.ready() // without Redis, too
	}
}

func TestRolesRefuse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{{"master"}, {"master", "--dispatch"}, {"worker"}} {
		text, err := newProgram(append(args, "--data-dir", dir, "--listen", "127.0.0.1:0")...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), `filter.url: ""`) || !strings.Contains(string(text), "hint: set filter.url") {
			t.Errorf("%q without a filter: %v, %s", args, err, text)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something was made before it was refused: %v", err)
	}
	p := start(t)
	text, err := newProgram("dispatch", "--once", "--data-dir", filepath.Join(p.dir, "data")).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "hint: `uridownloader serve` has this data directory") {
		t.Errorf("dispatch beside serve: %v, %s", err, text)
	}
}
