//go:build linux

package scriptengine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// attemptAt makes an attempt at a run of a script, with the bounds of work.
func (r *rig) attemptAt(task download.Task, change func(*download.Setting)) (worker.Page, *worker.Failure) {
	r.t.Helper()
	w := r.work("", change)
	w.Task, w.Job.Code, w.Job.Filter = task, download.Code{}, "uri_download"
	page, err := r.engine.Download(r.t.Context(), w)
	return page, worker.FailureOf(err)
}

func (r *rig) generate(text, host string) (worker.Page, *worker.Failure) {
	r.t.Helper()
	return r.attemptAt(download.Task{ID: "1", URI: "generate:2026-11-23T04:00:00Z", Attempts: 1}, func(s *download.Setting) {
		s.Generate = download.Generate{Code: download.Code{Language: script.Language, File: "g.star", Text: text}, Filter: "uri_generator", Host: host}
		s.Cookie = "a=b"
	})
}

func TestGenerate(t *testing.T) {
	r := newRig(t, serveShop)
	page, failure := r.generate(`
def generate(run):
    follow([`+"\""+r.URL+`/list/%d" % i for i in range(3)])
    links = fetch("`+r.URL+`/start")
    follow([a.attrs["href"] for a in html.select(links, "a")])
    emit([run.time, run.job, run.attempt, json.decode(fetch("`+r.URL+`/api").text)["cookie"]])
`, "127.0.0.1")
	if failure != nil {
		t.Fatal(failure)
	}
	if string(page.Records) != `["2026-11-23T04:00:00Z","test",1,"a=b"]`+"\n" || page.Body != nil {
		t.Errorf("records %s, body %v", page.Records, page.Body)
	}
	if got := strings.Join(r.followed, " "); got != "/list/0 /list/1 /list/2 /shoe?id=7 /hat" {
		t.Errorf("followed %q", got)
	}
	if got := strings.Join(r.filters, " "); got != "uri_generator uri_download" {
		t.Errorf("through the filters %q", got)
	}
	if got := strings.Join(r.turns, " "); got != "/start /api" || r.firsts != 0 {
		t.Errorf("turns %q, %d first: each request of generate waits for its turn", got, r.firsts)
	}
}

func TestGenerateFails(t *testing.T) {
	r := newRig(t, serveShop)
	for body, want := range map[string]string{
		`follow("/list")`:                 `code: g.star: follow: "/list": want a URI with http:// or https://`,
		`follow(["ftp://a.example/"])`:    `code: g.star: follow: "ftp://a.example/": want`,
		`return fetch("` + r.URL + `/x")`: "code: g.star: generate returned a page: want None",
		`x = run.uri`:                     "has no .uri",
	} {
		if _, failure := r.generate("def generate(run):\n    "+body+"\n", ""); failure == nil || !strings.Contains(failure.Reason, want) {
			t.Errorf("%s: got %+v, want %q", body, failure, want)
		}
	}
	r.foreign = true
	_, failure := r.generate("def generate(run):\n    fetch('"+r.URL+"/start')\n", "")
	if failure == nil || !strings.Contains(failure.Reason, "name it as generate.host of the job") {
		t.Errorf("a host of another worker: %+v", failure)
	}
	if len(r.followed) > 0 {
		t.Errorf("followed %q of attempts that failed", r.followed)
	}
}

// shelf is a store with a job that has one page, in a given state.
func shelf(t *testing.T, uri string) (*sqlite.Store, download.Job, download.Lease) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	j, err := s.AddJob(t.Context(), download.Job{Name: "test", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 1, Dispatch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	task, err := download.TaskOf(uri)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddTasks(t.Context(), j.ID, []download.NewTask{task}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.HandOut(t.Context(), j.ID, 1, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: 1, For: time.Hour, Shards: []int{task.Shard}, Lanes: download.Lanes()})
	if err != nil || len(leases) != 1 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	return s, j, leases[0]
}

func TestParse(t *testing.T) {
	s, j, lease := shelf(t, "http://a.example/start")
	r := newRig(t, nil, func(o *Options) { o.Stored = s })
	parse := func(body string) (worker.Page, *worker.Failure) {
		t.Helper()
		run := download.ParseRun(lease.Task)
		return r.attemptAt(download.Task{ID: "2", Job: j.ID, URI: run.URI, Attempts: 1}, func(s *download.Setting) {
			s.Parse = download.Parse{Code: download.Code{Language: script.Language, File: "p.star", Text: "def parse(page):\n    " + body + "\n"}, Filter: "uri_parse"}
		})
	}
	const body = `emit([page.url, page.status, page.headers["x-shop"], page.records, len(page.body), html.select(page, "li")[1].text]); follow([a.attrs["href"] for a in html.select(page, "a")])`
	if _, failure := parse(body); failure == nil || !failure.Early || failure.After == 0 || !strings.Contains(failure.Reason, "is not stored yet") {
		t.Errorf("before the page is stored: %+v", failure)
	}
	err := s.Finish(t.Context(), lease, download.Result{
		URI: "http://a.example/shop/start", Status: 200, Header: http.Header{"X-Shop": {"open"}}, ContentType: "text/html; charset=utf-8",
		Body: strings.NewReader(shop), Records: []byte("{\"a\":\"b\\nc\"}\n2\n"),
	}, download.Attempt{})
	if err != nil {
		t.Fatal(err)
	}
	page, failure := parse(body)
	if failure != nil {
		t.Fatal(failure)
	}
	want := fmt.Sprintf(`["http://a.example/shop/start",200,"open",[{"a":"b\nc"},2],%d,"A hatmore"]`, len(shop)) + "\n"
	if string(page.Records) != want || page.Body != nil || page.URI != "http://a.example/start" {
		t.Errorf("%+v, records %s, want %s", page.Result, page.Records, want)
	}
	if got := strings.Join(r.followed, " "); got != "http://a.example/shoe?id=7 http://a.example/shop/hat" {
		t.Errorf("followed %q", got)
	}
	if got := strings.Join(r.filters, " "); got != "uri_download" {
		t.Errorf("through the filters %q", got)
	}
	for body, want := range map[string]string{
		"return page":     "code: p.star: parse returned a page: want None",
		"page.nobody":     "p.star:2:9: page has no .nobody",
		"fetch(page.url)": "p.star:2:5: undefined: fetch",
	} {
		if _, failure := parse(body); failure == nil || !strings.Contains(failure.Reason, want) {
			t.Errorf("%s: got %+v, want %q", body, failure, want)
		}
	}
	if len(r.asked) > 0 {
		t.Errorf("%q were fetched", r.asked)
	}
}

// A page whose download failed, or that is too large, is never parsed.
func TestParseOfNoPage(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(s *sqlite.Store, l download.Lease) error
		want string
	}{
		"failed": {func(s *sqlite.Store, l download.Lease) error {
			return s.Fail(context.Background(), l, download.Attempt{Reason: "status"}, time.Time{})
		}, "page: was not stored: its download failed"},
		"large": {func(s *sqlite.Store, l download.Lease) error {
			return s.Finish(context.Background(), l, download.Result{Body: io.LimitReader(zeros{}, script.MaxPage+1)}, download.Attempt{})
		}, "body_too_large: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, j, lease := shelf(t, "http://a.example/start")
			r := newRig(t, nil, func(o *Options) { o.Stored = s })
			if err := end.do(s, lease); err != nil {
				t.Fatal(err)
			}
			_, failure := r.attemptAt(download.Task{ID: "2", Job: j.ID, URI: download.ParseRun(lease.Task).URI}, func(s *download.Setting) {
				s.Parse.Code = download.Code{Language: script.Language, File: "p.star", Text: "def parse(page): pass"}
			})
			if failure == nil || !failure.Permanent || !strings.HasPrefix(failure.Reason, end.want) {
				t.Errorf("%+v, want %q", failure, end.want)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
