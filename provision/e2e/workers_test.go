package e2e_test

import (
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// workersPages is small in the suite: FerretDB, which stands in for MongoDB, reads all tasks for
// most of its updates, so that a thousand of them take minutes.
var workersPages = flag.Int("workers.pages", 60, "pages of the job of TestSystemWorkers")

// tryWorkers: the toolkit deploys a master and two workers on hosts of their own, which share one
// database, call one filter, and are notified through one Redis. A job that the master accepts is
// downloaded once; when one worker is away, the other one goes on; and a broken release stops at
// the first worker.
func tryWorkers(t *testing.T) {
	many := *workersPages
	l := e2e.New(t, e2e.Options{
		Hosts: []e2e.Host{
			{Name: "hub", Roles: "filter, mongodb, redis, master"},
			{Name: "w1", Roles: "worker"},
			{Name: "w2", Roles: "worker", Sudo: true},
		},
		Repository: true, Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
	})
	first := l.Downloader(t, "first")
	l.WriteInventory(t, l.Inventory(t)+fmt.Sprintf("downloader: {binary: %q, settings: {listen: '0.0.0.0:8001', allow_private: true}}\n", first))
	l.Must(t, "settings:token", "-name=crawler")
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=news", "-program=uridownloader").Stdout)
	pages := servePages(t, l.Sandbox.Gateway)

	l.Must(t, "deploy")
	l.Must(t, "plan", "-exitCode")
	for host, runs := range map[string]string{"hub": "master --dispatch", "w1": "worker", "w2": "worker"} {
		if got := l.Sh(t, host, "systemctl show -P ExecStart uridownloader | grep -o 'uridownloader [a-z-]* *[a-z-]* --config'; find /etc/uridownloader -type f -perm /o+r ! -name '.*'"); got != "uridownloader "+runs+" --config" {
			t.Errorf("%s runs or shows %s", host, got)
		}
	}
	if got := l.Sh(t, "hub", "ls /etc/urifilter/uridownloader.token; cat /etc/urifilter/uridownloader.token | sha256sum") + l.Sh(t, "w1", "cat /etc/uridownloader/filter.token | sha256sum"); strings.Count(got, strings.Fields(got)[1]) != 2 {
		t.Errorf("the token for the filter: %s", got)
	}

	// All of them are notified through Redis, whose address and password the toolkit has put into
	// their settings.
	for host, address := range map[string]string{"hub": "127.0.0.1", "w1": l.Hosts["hub"].Address, "w2": l.Hosts["hub"].Address} {
		if got := l.Sh(t, host, "grep -A4 '^redis:' /etc/uridownloader/uridownloader.yaml"); !strings.Contains(got, address+":6379") || !strings.Contains(got, "/etc/uridownloader/redis.password") {
			t.Errorf("the settings of %s have\n%s", host, got)
		}
	}
	redis := func(command string) string {
		t.Helper()
		return l.Sh(t, "hub", "REDISCLI_AUTH=$(cat /etc/uridownloader/redis.password) redis-cli "+command)
	}
	// Several names for the web server, so that its pages are on several hosts, which the workers
	// divide among themselves.
	for _, host := range []string{"w1", "w2"} {
		l.Sh(t, host, "for i in $(seq 0 15); do echo "+l.Sandbox.Gateway+" site$i.test; done >>/etc/hosts")
	}
	s := submitter{fmt.Sprintf("http://%s:8001", l.Hosts["hub"].Address), token}
	began := time.Now()
	if status, text := s.call(t, "POST", "/api/v1/jobs", pages.sitesJob("news", 0, many)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	s.done(t, "news", many)
	t.Logf("%d pages took %s", many, time.Since(began).Round(time.Second))
	if n, err := strconv.Atoi(redis("XLEN uridownloader:wake")); err != nil || n == 0 {
		t.Errorf("the stream has %d entries, %v: nobody was told", n, err)
	}
	const metrics = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8002; printf \"GET /metrics HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n\" >&3; cat <&3' | "
	for _, host := range []string{"w1", "w2"} {
		comes(t, host+" listens", `addr=`+regexp.QuoteMeta(l.Hosts[host].Address)+`:.* cmd=xread `, func() string { return redis("CLIENT LIST") })
		comes(t, host+" has done its part, and is told", `(?s)done"\} [1-9].*wake_connected 1`, func() string {
			return l.Sh(t, host, metrics+"grep -e ^uridownloader_wake_connected -e ^uridownloader_attempts_total.*done")
		})
	}
	_, logs := s.call(t, "GET", "/api/v1/jobs/news/logs", "")
	if one, two := strings.Count(logs, `"w1"`), strings.Count(logs, `"w2"`); one+two < many || one == 0 || two == 0 {
		t.Errorf("the log has %d attempts of w1 and %d of w2: want %d in all, some of each", one, two, many)
	}

	// A page is fetched at least once and stored exactly once: a worker can lose its lease, or
	// the shard of the host, while it fetches, and another then also fetches the page. Each such
	// fetch is reported: by the worker, which has lost the lease or gives the task back, or by a
	// further attempt in the log.
	told := func() int {
		_, logs := s.call(t, "GET", "/api/v1/jobs/news/logs", "")
		lost := strings.Count(logs, "\n") - many
		for _, host := range []string{"w1", "w2"} {
			n, err := strconv.Atoi(l.Sh(t, host, metrics+`awk '/^uridownloader_attempts_total.*"(lost|given_back)"/ {n += $2} END {print n + 0}'`))
			if err != nil {
				t.Fatal(err)
			}
			lost += n
		}
		return lost
	}
	again := pages.fetches() - many
	for range 120 { // the other worker may still be fetching
		if told() >= again {
			break
		}
		time.Sleep(time.Second)
	}
	if n := told(); n < again {
		t.Errorf("pages were fetched %d times beyond the first: workers and the log tell of %d", again, n)
	}

	// Each worker alone. Pages of earlier jobs have been seen, because both workers use one
	// filter.
	for i, away := range []string{"w1", "w2"} {
		l.Must(t, "downloader:stop", "-hosts="+away)
		job := fmt.Sprintf("without-%s", away)
		if status, text := s.call(t, "POST", "/api/v1/jobs", pages.sitesJob(job, many-5+5*i, many+5+5*i)); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		s.done(t, job, 5)
		l.Must(t, "downloader:start", "-hosts="+away)
		_, logs := s.call(t, "GET", "/api/v1/jobs/"+job+"/logs", "")
		at := "\"" + map[string]string{"w1": "w2", "w2": "w1"}[away] + "\"" // each attempt; a slow database causes more of them
		if all := strings.Count(logs, "\n"); all < 5 || strings.Count(logs, at) != all {
			t.Errorf("without %s: want 5 attempts or more, all at %s:\n%s", away, at, logs)
		}
	}

	r := l.Mage(t, "deploy", "-hosts=role:worker", "-binary="+l.BrokenOf(t, first, programs.Exit))
	want(t, r, fleet.CodeFailed, "w1", "rolled back: release")
	comes(t, "all of them are up and ready", `(?s)^(.*active.*yes){3}`, func() string { return l.Must(t, "downloader:status").Stdout })
	if often, stored := pages.often(), s.stored(t, "news"); len(often) != many+10 || len(stored) != many || len(slices.Compact(stored)) != many {
		t.Errorf("%d pages were fetched and %d are stored: want %d and %d", len(often), len(stored), many+10, many)
	}
}

// comes waits until what seen returns matches.
func comes(t *testing.T, what, match string, seen func() string) {
	t.Helper()
	want := regexp.MustCompile(match)
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		got := seen()
		if want.MatchString(got) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: want %s, got\n%s", what, match, got)
		}
	}
}
