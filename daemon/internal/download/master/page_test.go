package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pagetest"
)

func init() { openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder) }

// browse sends a request as a browser does from the program's own page.
func (r *rig) browse(cookie, method, path, form string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(form))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	req.Header.Set("Cookie", cookie)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", r.url)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		pagetest.Clean(r.t, resp, string(text))
	}
	if strings.Contains(string(text), "secret") {
		r.t.Errorf("%s shows a secret: %s", path, text)
	}
	return resp, string(text)
}

// see is what a browser sees at a path.
func (r *rig) see(cookie, path string) string {
	r.t.Helper()
	r.master.jobsSeen.Drop()
	resp, text := r.browse(cookie, "GET", path, "")
	if resp.StatusCode != http.StatusOK {
		r.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
	return text
}

// work makes attempts of a job's tasks: the last one of each four fails, and every eighth is left running.
func (r *rig) work(name string, tasks int) {
	r.t.Helper()
	ctx := r.t.Context()
	j, err := r.store.Job(ctx, name)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.store.HandOut(ctx, j.ID, tasks, 0, time.Hour); err != nil {
		r.t.Fatal(err)
	}
	shards := make([]int, download.Shards)
	for i := range shards {
		shards[i] = i
	}
	leases, err := r.store.Lease(ctx, download.Want{Owner: "worker-1", Max: tasks, For: time.Hour, Shards: shards, Lanes: download.Lanes()})
	if err != nil {
		r.t.Fatal(err)
	}
	reasons := []string{"timeout: nothing for 30s", "status: 503", "dns: no such host", "robots: forbidden"}
	for i, l := range leases {
		switch {
		case i%8 == 5:
		case i%4 == 3:
			err = r.store.Fail(ctx, l, download.Attempt{Reason: reasons[i/4%4], HostName: "crawler-1", Spent: 30 * time.Second}, time.Time{})
		default:
			err = r.store.Finish(ctx, l, download.Result{URI: l.Task.URI, Status: 200}, download.Attempt{Status: 200, HostName: "crawler-1", Spent: 321 * time.Millisecond})
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func tokensForPages(o *Options) {
	all := map[string][]string{"secret-read": {"read"}, "secret-submit": {"submit"}, "secret-admin": {"admin"}}
	o.Authenticate = func(secret string) (string, []string, bool) {
		scopes, ok := all[secret]
		return strings.TrimPrefix(secret, "secret-"), scopes, ok
	}
}

// Browsers see the jobs, others the paths. What is in addresses to log in with is not shown.
func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(200, "GET    /api/v1/jobs", "GET", "/", "", "Accept", "*/*")
	r.want(200, "/ui/", "GET", "/", "", "Accept", "text/html")
	if text := r.see("", "/"); !strings.Contains(text, "There are no jobs yet") {
		t.Error(text)
	}
	var uris []string
	for i := range 40 {
		uris = append(uris, fmt.Sprintf("http://user:secret@www%d.example/%d", i%3, i))
	}
	r.want(201, "", "POST", "/api/v1/jobs", "name: news\nuris: ["+strings.Join(uris, ", ")+"]")
	r.work("news", 32)
	for _, want := range []string{"/ui/jobs/news", "no dispatcher is alive", "no worker is alive", ">timeout<", ".example ("} {
		if text := r.see("", "/"); !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	for _, want := range []string{"http://xxxxx@www", "dns: no such host", "crawler-1", "321 ms"} {
		if text := r.see("", "/ui/jobs/news"); !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	for path, status := range map[string]int{"/ui/jobs/none": 404, "/ui/none": 404} {
		if resp, text := r.browse("", "GET", path, ""); resp.StatusCode != status {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}

func TestPagesHaveTheScopesOfTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokensForPages)
	r.want(201, "", "POST", "/api/v1/jobs", "name: news\nuris: [http://a.example/1, http://a.example/2, http://a.example/3, http://a.example/4]", "Authorization", "Bearer secret-admin")
	r.work("news", 4)
	if resp, text := r.browse("", "GET", "/", ""); resp.StatusCode != 401 || strings.Contains(text, "news") {
		t.Errorf("a stranger sees %d %s", resp.StatusCode, text)
	}
	cookies := map[string]string{}
	for _, scope := range []string{"read", "submit", "admin"} {
		resp, text := r.browse("", "POST", "/ui/login", "token=secret-"+scope)
		if len(resp.Cookies()) != 1 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		cookies[scope] = resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	}
	for scope, acts := range map[string][]string{"read": nil, "submit": {"pause", "retry"}, "admin": {"pause", "retry", "drop"}} {
		text := r.see(cookies[scope], "/ui/jobs/news")
		for _, act := range []string{"pause", "retry", "drop"} {
			if got, want := strings.Contains(text, "/ui/jobs/news/"+act), strings.Contains(strings.Join(acts, " "), act); got != want {
				t.Errorf("%s sees %s: %v", scope, act, got)
			}
		}
	}
	for _, act := range []string{"pause", "resume", "retry", "drop"} {
		if resp, text := r.browse(cookies["read"], "POST", "/ui/jobs/news/"+act, ""); resp.StatusCode != 403 {
			t.Errorf("%s by a reader: %d %s", act, resp.StatusCode, text)
		}
	}
	if resp, text := r.browse(cookies["submit"], "POST", "/ui/jobs/news/drop", ""); resp.StatusCode != 403 {
		t.Errorf("drop: %d %s", resp.StatusCode, text)
	}
	for _, call := range []string{"GET /api/v1/jobs", "DELETE /api/v1/jobs/news?confirm=news", "POST /api/v1/jobs/news/pause"} {
		method, path, _ := strings.Cut(call, " ")
		if resp, text := r.browse(cookies["admin"], method, path, ""); resp.StatusCode != 401 {
			t.Errorf("%s with a cookie: %d %s", call, resp.StatusCode, text)
		}
	}
	for act, want := range map[string]string{"pause": `"status":"off"`, "resume": `"status":"on"`, "retry": `"failed":0`} {
		if resp, text := r.browse(cookies["submit"], "POST", "/ui/jobs/news/"+act, ""); resp.StatusCode != 303 {
			t.Errorf("%s: %d %s", act, resp.StatusCode, text)
		}
		r.want(200, want, "GET", "/api/v1/jobs/news", "", "Authorization", "Bearer secret-read")
	}
	if resp, text := r.browse(cookies["admin"], "POST", "/ui/jobs/news/drop", ""); resp.StatusCode != 303 {
		t.Errorf("drop: %d %s", resp.StatusCode, text)
	}
	r.want(404, "unknown_job", "GET", "/api/v1/jobs/news", "", "Authorization", "Bearer secret-read")
}

// Addresses, reasons and names of workers come from pages and machines of others, and jobs that were refused from callers.
func TestPagesOfHostileTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Version = pagetest.Hostile })
	ctx, hostile := t.Context(), strings.ReplaceAll(pagetest.Hostile, "\r\n", " ")
	r.want(201, "", "POST", "/api/v1/jobs", "name: news")
	j, err := r.store.Job(ctx, "news")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.AddTasks(ctx, j.ID, []download.NewTask{{URI: "http://a.example/?" + hostile}, {URI: "javascript:alert(4)//" + hostile}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.HandOut(ctx, j.ID, 9, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	shards := make([]int, download.Shards)
	for i := range shards {
		shards[i] = i
	}
	leases, err := r.store.Lease(ctx, download.Want{Owner: hostile, Max: 9, For: time.Hour, Shards: shards, Lanes: download.Lanes()})
	if err != nil || len(leases) == 0 {
		t.Fatal(len(leases), err)
	}
	if err := r.store.Fail(ctx, leases[0], download.Attempt{Reason: hostile, HostName: hostile}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Hold(ctx, hostile, []string{download.WorkerPrefix + hostile, download.DispatcherRole}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := r.store.KeepRefusal(ctx, download.Refusal{Name: hostile, Text: hostile}); err != nil {
		t.Fatal(err)
	}
	q, p := url.QueryEscape(pagetest.Hostile), url.PathEscape(pagetest.Hostile)
	for _, path := range []string{"/", "/ui/jobs/news", "/?q=" + q, "/?sort=" + q, "/ui/jobs/" + p, "/ui/jobs/" + p + "/drop"} {
		if _, text := r.browse("", "GET", path, ""); strings.Contains(text, "<script>alert") || strings.Contains(text, `href="javascript:`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, act := range []string{"pause", "drop", "retry"} {
		r.browse("", "POST", "/ui/jobs/"+p+"/"+act, "")
	}
}

// TestSystemPages is that of the filter daemon's pages, for the downloader's.
func TestSystemPages(t *testing.T) {
	browser, axe := pagetest.Start(t), pagetest.Axe(t)
	var away atomic.Bool
	r := newRig(t, func(o *Options) {
		o.Version = "1.2.3"
		o.Ready = func(context.Context) error {
			if away.Load() {
				return fmt.Errorf("mongodb 192.0.2.7:27017: i/o timeout: %w", errors.Join(download.ErrUnavailable))
			}
			return nil
		}
	})
	looks := map[string]pagetest.Look{
		"1440-light": {Width: 1440}, "800-dark": {Width: 800, Dark: true}, "390-dark-zh": {Width: 390, Dark: true, Language: "zh-CN"},
	}
	shoot := func(state string, paths map[string]string) {
		t.Helper()
		for look, l := range looks {
			tab := browser.Tab(l)
			for name, path := range paths {
				r.master.jobsSeen.Drop()
				tab.Open(r.url + path)
				tab.Shoot(strings.Join([]string{"jobs", state, name, look}, "-"))
				tab.Accessible(state+" "+name+" "+look, axe)
				if wrong := tab.Complaints(); len(wrong) > 0 {
					t.Errorf("%s %s: the browser complains: %q", state, path, wrong)
				}
			}
		}
	}
	shoot("none", map[string]string{"list": "/"})
	add := func(name string, hosts, tasks int) {
		t.Helper()
		var uris strings.Builder
		for i := range tasks {
			fmt.Fprintf(&uris, "\n- https://www%d.%s.example/articles/2026/%d.html", i%hosts, name, i)
		}
		r.want(201, "", "POST", "/api/v1/jobs", "name: "+name+"\nuris:"+uris.String())
	}
	for i, name := range []string{"news", "shops", "archive"} {
		add(name, 2+i, 400*(i+1))
		r.work(name, 300)
	}
	r.want(200, "", "POST", "/api/v1/jobs/archive/pause", "")
	r.want(422, "", "POST", "/api/v1/jobs", "name: forum\nsetting: {delay: soon}")
	for _, name := range []string{download.DispatcherRole, download.WorkerPrefix + "crawler-1:4711:abc", download.WorkerPrefix + "crawler-2:815:def", download.ShardPrefix + "1"} {
		owner := strings.TrimPrefix(name, download.WorkerPrefix)
		if _, err := r.store.Hold(t.Context(), owner, []string{name}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	shoot("few", map[string]string{"list": "/", "job": "/ui/jobs/news", "drop": "/ui/jobs/news/drop"})
	for i := range 297 {
		add(fmt.Sprintf("site_%03d", i), 1, 1+i%3)
	}
	shoot("many", map[string]string{"list": "/?sort=failed"})
	away.Store(true)
	shoot("away", map[string]string{"list": "/"})
}
