package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// pages is a web server on the network of the hosts that counts the requests for each page.
type pages struct {
	url  string
	mu   sync.Mutex
	seen map[string]int
}

func servePages(t *testing.T, address string) *pages {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &pages{url: "http://" + l.Addr().String(), seen: map[string]int{}}
	server := &http.Server{Handler: p}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return p
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/page/") {
		http.NotFound(w, r) // robots.txt
		return
	}
	p.mu.Lock()
	p.seen[r.URL.Path]++
	p.mu.Unlock()
	fmt.Fprintf(w, "<p>this is %s</p>", r.URL.Path)
}

// often returns how often each page was requested.
func (p *pages) often() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var often []int
	for _, n := range p.seen {
		often = append(often, n)
	}
	return often
}

// fetches returns how often pages were requested in all.
func (p *pages) fetches() (all int) {
	for _, n := range p.often() {
		all += n
	}
	return all
}

// job returns a job for some URIs of the server, as the body of a request.
func (p *pages) job(name string, from, to int) string {
	return jobOf(name, from, to, func(int) string { return p.url })
}

// sitesJob is like job, with URIs of sixteen hosts, site0.test and so on.
func (p *pages) sitesJob(name string, from, to int) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(p.url, "http://"), ":")
	return jobOf(name, from, to, func(i int) string { return fmt.Sprintf("http://site%d.test:%s", i%16, port) })
}

func jobOf(name string, from, to int, url func(i int) string) string {
	var uris []string
	for i := from; i < to; i++ {
		uris = append(uris, fmt.Sprintf("%q", fmt.Sprintf("%s/page/%d", url(i), i)))
	}
	return fmt.Sprintf(`{"name": %q, "filter": "uri_download", "uris": [%s], "setting": {"delay": "1ms", "concurrency": 4}}`, name, strings.Join(uris, ","))
}

// scriptJob is like job, with code of its own.
func (p *pages) scriptJob(name string, from, to int) string {
	plain := p.job(name, from, to)
	return strings.Replace(plain, `"delay": "1ms"`, `"download_engine": "script", "delay": "1ms"`, 1)[:len(plain)+len(`"download_engine": "script", `)-1] +
		`, "code": {"file": "code.star", "text": "def download(task):\n    page = fetch(task.uri)\n    emit({\"bytes\": len(page.body)})\n    return page\n"}}`
}

// submitter calls a master over the network.
type submitter struct{ url, token string }

func (s submitter) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// done waits until want tasks of a job are done, and none is left.
func (s submitter) done(t *testing.T, job string, want int) {
	t.Helper()
	before := ""
	for moved := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		status, text := s.call(t, "GET", "/api/v1/jobs/"+job, "")
		var told struct{ Tasks map[string]int }
		if err := json.Unmarshal([]byte(text), &told); status != http.StatusOK || err != nil {
			t.Fatalf("%d %s", status, text)
		}
		if told.Tasks["done"] == want && told.Tasks["waiting"]+told.Tasks["ready"]+told.Tasks["running"]+told.Tasks["failed"] == 0 {
			return
		}
		if now := fmt.Sprint(told.Tasks); now != before {
			before, moved = now, time.Now()
		}
		if time.Since(moved) > 5*time.Minute || told.Tasks["failed"] > 0 {
			_, logs := s.call(t, "GET", "/api/v1/jobs/"+job+"/logs", "")
			t.Fatalf("%s: want %d done: %s\n%s", job, want, text, logs)
		}
	}
}

// stored returns the URIs for which a job has data, sorted.
func (s submitter) stored(t *testing.T, job string) []string {
	t.Helper()
	_, text := s.call(t, "GET", "/api/v1/jobs/"+job+"/data", "")
	var uris []string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var d struct {
			URI    string
			Status int
		}
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil || d.Status != http.StatusOK {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		uris = append(uris, d.URI)
	}
	slices.Sort(uris)
	return uris
}

// tryDownloader: the toolkit deploys uridownloader, all roles in one process. A job that is
// submitted over the network is downloaded once, page by page; a broken release is rolled
// back, and the downloaded data is kept.
func tryDownloader(t *testing.T) {
	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "down", Roles: "downloader"}}})
	first := l.Downloader(t, "first")
	l.WriteInventory(t, l.Inventory(t)+fmt.Sprintf("downloader: {binary: %q, settings: {listen: '0.0.0.0:8001', allow_private: true}}\n", first))
	pages := servePages(t, l.Sandbox.Gateway)

	want(t, l.Mage(t, "deploy"), fleet.CodeUsage, "-scopes=submit -program=uridownloader")
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=news", "-program=uridownloader").Stdout)
	l.Must(t, "deploy")
	l.Must(t, "plan", "-exitCode")
	if got := l.Sh(t, "down", "systemctl is-active uridownloader.service uridownloader.socket; stat -c '%U:%G %a' /etc/uridownloader/* /var/lib/uridownloader; ls /etc/cron.d/uridownloader 2>&1 || :"); got !=
		"active\nactive\nroot:uridownloader 640\nroot:uridownloader 640\nroot:uridownloader 640\nuridownloader:uridownloader 700\nls: cannot access '/etc/cron.d/uridownloader': No such file or directory" {
		t.Errorf("the host has\n%s", got)
	}
	if got := l.Sh(t, "down", "ls -d /opt/urifilter /etc/urifilter /var/lib/urifilter 2>/dev/null || :"); got != "" {
		t.Errorf("of the filter there is %s", got)
	}

	s := submitter{fmt.Sprintf("http://%s:8001", l.Hosts["down"].Address), token}
	if status, text := (submitter{s.url, "not-a-token-of-ours"}).call(t, "POST", "/api/v1/jobs", pages.job("news", 0, 50)); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, text)
	}
	if status, text := s.call(t, "POST", "/api/v1/jobs", pages.job("news", 0, 50)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	s.done(t, "news", 50)
	stored := s.stored(t, "news")

	// A job's own code also runs in its jail under the hardened unit.
	if status, text := s.call(t, "POST", "/api/v1/jobs", pages.scriptJob("code", 60, 62)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	s.done(t, "code", 2)

	// A release that does not start is rolled back: the one before has all data, and goes on.
	r := l.Mage(t, "deploy", "-binary="+l.BrokenOf(t, first, programs.Exit))
	want(t, r, fleet.CodeFailed, "I exit at once, as the test wants it", "rolled back: release")
	if status, text := s.call(t, "POST", "/api/v1/jobs", pages.job("more", 40, 60)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	s.done(t, "more", 10) // the other ten had been seen
	if again := s.stored(t, "news"); len(again) != 50 || !slices.Equal(again, stored) {
		t.Errorf("after the way back there are %d results of 50", len(again))
	}
	if often := pages.often(); len(often) != 62 || slices.Max(often) != 1 {
		t.Errorf("%d pages were fetched, one %d times: want 62, each once", len(often), slices.Max(often))
	}

	// Another release, the list of releases, and back.
	l.Must(t, "deploy", "-binary="+l.Downloader(t, "second"))
	if got := l.Must(t, "downloader:releases").Stdout; strings.Count(got, "never") != 1 || strings.Count(got, "*") != 1 || strings.Count(got, "\n") != 4 {
		t.Errorf("releases:\n%s", got)
	}
	l.Must(t, "downloader:rollback")
	if got := l.Sh(t, "down", "sha256sum </opt/uridownloader/current/uridownloader"); got != sha256Of(t, first) {
		t.Error("the first release does not run")
	}
	if got := l.Must(t, "downloader:status").Stdout; !strings.Contains(got, "active") || !strings.Contains(got, "yes") {
		t.Errorf("status:\n%s", got)
	}
	if got := l.Must(t, "downloader:logs", "-lines=5").Stdout; !strings.Contains(got, "down | ") {
		t.Errorf("logs:\n%s", got)
	}
	l.Must(t, "downloader:stop")
	want(t, l.Mage(t, "downloader:status"), fleet.CodeFailed, "go tool mage uridownloader:start -hosts=down")
	l.Must(t, "downloader:start")
	if len(s.stored(t, "news")) != 50 {
		t.Error("results are gone after a stop and a start")
	}
}

// sha256Of returns the digest of a file, as sha256sum prints it for its standard input.
func sha256Of(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x  -", sha256.Sum256(text))
}
