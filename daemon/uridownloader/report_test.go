package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

// The webhook is called once when the tasks of a job have ended, and again when further ones have.
func TestReports(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- r.Header.Get("Authorization") + " " + string(body)
	}))
	t.Cleanup(hook.Close)
	s := newSite(t)
	dir := t.TempDir()
	token := write(t, dir, "token", "secret\n")
	p := start(t, "--config", write(t, dir, "settings.yaml", "dispatch: {every: 1s}\nreport: {webhook: \""+hook.URL+"\", webhook_token_file: \""+token+"\"}\n"))
	next := func() (body struct {
		Event, Job string
		Tasks      struct{ Done, Failed int }
		Reasons    []struct {
			Reason string
			Tasks  int
		}
	}) {
		t.Helper()
		select {
		case call := <-calls:
			if call[:len("Bearer secret ")] != "Bearer secret " {
				t.Errorf("called with %s", call)
			}
			if err := json.Unmarshal([]byte(call[len("Bearer secret "):]), &body); err != nil {
				t.Fatal(err)
			}
		case <-time.After(3 * time.Minute):
			t.Fatal("the webhook was not called for 3 minutes")
		}
		return body
	}
	write(t, dir, "uris.txt", s.pages(8))
	p.must("", "job", "add", write(t, dir, "news.yaml", "name: news\nuris: uris.txt\nsetting: {delay: 0s, max_download_times: 1}\n"))
	if got := next(); got.Event != "job_ended" || got.Job != "news" || got.Tasks.Done != 7 || got.Tasks.Failed != 1 || len(got.Reasons) != 1 || got.Reasons[0].Tasks != 1 {
		t.Errorf("%+v", got)
	}
	p.Kill()
	p.start("--config", filepath.Join(dir, "settings.yaml"))
	p.must(s.URL+"/page/x7\n", "job", "uris", "news", "-")
	got := next()
	if got.Tasks.Failed == 1 { // it was killed before it could record that this was sent
		got = next()
	}
	if got.Event != "job_ended" || got.Tasks.Done != 7 || got.Tasks.Failed != 2 {
		t.Errorf("after further URIs: %+v", got)
	}
	if len(calls) != 0 {
		t.Errorf("called again: %s", <-calls)
	}
}
