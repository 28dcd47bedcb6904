package master

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// TestSecretsAreNotShown: no call that only reads answers with the password of a URI, wherever it was met.
func TestSecretsAreNotShown(t *testing.T) {
	r := newRig(t)
	const uri = "http://me:s3cret@a.example/"
	r.want(http.StatusCreated, "", http.MethodPost, "/api/v1/jobs", `{"name": "j", "uris": ["`+uri+`", "http://tok3n@a.example/2", "http://a.example/3"]}`, "Content-Type", "application/json")
	r.want(http.StatusUnprocessableEntity, "", http.MethodPost, "/api/v1/jobs", `{"name": "bad", "uris": ["http://me:s3cret@a.example:port/"], "setting": {"proxy": ["gopher://me:s3cret@p/"]}}`, "Content-Type", "application/json")
	j, err := r.store.Job(t.Context(), "j")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.HandOut(t.Context(), j.ID, 9, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := r.store.Lease(t.Context(), download.Want{Owner: "w", Max: 9, For: time.Hour, Shards: []int{download.ShardOf("a.example")}, Lanes: download.Lanes()})
	if err != nil || len(leases) != 3 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	task := ""
	for i, lease := range leases {
		if i == 0 {
			err = r.store.Fail(t.Context(), lease, download.Attempt{Reason: "bad_uri: " + uri + ": no \"" + uri + "\""}, time.Time{})
		} else {
			task = lease.Task.ID
			err = r.store.Finish(t.Context(), lease, download.Result{
				URI: uri + "final", Status: 200, Header: http.Header{"Location": {uri}, "Link": {"<" + uri + ">; rel=next"}, "Refresh": {"0; url=" + uri}},
			}, download.Attempt{Status: 200})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, index := r.do(http.MethodGet, "/", "")
	seen := map[string]string{}
	for _, route := range strings.Split(index, "\n") {
		if !strings.HasPrefix(route, "GET ") {
			continue
		}
		for _, path := range regexp.MustCompile(`/[\w/{}.]+`).FindAllString(route[:min(len(route), 40)], -1) {
			path = strings.NewReplacer("{name}", "j", "{task}", task).Replace(path)
			status, text := r.do(http.MethodGet, path, "")
			if status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
			seen[path] = text
			for _, secret := range []string{"s3cret", "tok3n"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows a password: %s", path, text)
				}
			}
		}
	}
	for _, path := range []string{"/api/v1/jobs/j/tasks", "/api/v1/jobs/j/logs", "/api/v1/jobs/j/data", "/api/v1/refusals"} {
		if !strings.Contains(seen[path], "a.example") {
			t.Errorf("%s says nothing of what it is about: %q", path, seen[path])
		}
	}
}

// TestDamageIsNotAnswered: a body that is not what was stored is an error, or an answer that breaks off.
func TestDamageIsNotAnswered(t *testing.T) {
	dir := t.TempDir()
	r := newRigIn(t, dir, nil)
	bodies := map[string]string{"http://a.example/mid": strings.Repeat("a", 1<<20+1), "http://a.example/long": strings.Repeat("b", 3<<20)}
	r.want(http.StatusCreated, "", http.MethodPost, "/api/v1/jobs", `{"name": "j", "uris": ["http://a.example/mid", "http://a.example/long"]}`, "Content-Type", "application/json")
	j, err := r.store.Job(t.Context(), "j")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.HandOut(t.Context(), j.ID, 9, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := r.store.Lease(t.Context(), download.Want{Owner: "w", Max: 9, For: time.Hour, Shards: []int{download.ShardOf("a.example")}, Lanes: download.Lanes()})
	if err != nil || len(leases) != 2 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	get := func(task string) (int64, int, error) {
		resp, err := http.Get(r.url + "/api/v1/jobs/j/data/" + task)
		if err != nil {
			return 0, 0, err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		return n, resp.StatusCode, err
	}
	for _, lease := range leases {
		body := bodies[lease.Task.URI]
		if err := r.store.Finish(t.Context(), lease, download.Result{Status: 200, Body: strings.NewReader(body)}, download.Attempt{Status: 200}); err != nil {
			t.Fatal(err)
		}
		if n, status, err := get(lease.Task.ID); n != int64(len(body)) || status != http.StatusOK || err != nil {
			t.Errorf("%s: %d bytes, status %d, %v", lease.Task.URI, n, status, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "store", "bodies", "*", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text[7] ^= 1
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, lease := range leases {
		if n, status, err := get(lease.Task.ID); err == nil && status == http.StatusOK {
			t.Errorf("%s: %d bytes of a damaged body were answered", lease.Task.URI, n)
		}
	}
}
