package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
)

// TestSystemRolesOnMongoDB runs master, dispatcher and workers in processes that share only
// MongoDB and the filter, as on several machines. One of them is killed.
func TestSystemRolesOnMongoDB(t *testing.T) {
	t.Parallel()
	const pages = 60
	s, filter := newSite(t), clienttest.NewServer(t)
	turns := mongotest.NewTurns(t, mongotest.New(t, mongotest.Options{}).Addr())
	env := environ{"URIDOWNLOADER_STORE=mongodb", "URIDOWNLOADER_MONGODB_URI=" + turns.URI(), "URIDOWNLOADER_WORKER_LEASE=10s", "URIDOWNLOADER_WORKER_CONCURRENCY=4"}
	dir := func(name string) string { return filepath.Join(t.TempDir(), name) }
	master := env.role(t, "", dir("master"), filter.URL, "master")
	env.role(t, "", dir("dispatch"), filter.URL, "dispatch")
	workers := []*process{
		env.role(t, "", dir("a"), filter.URL, "worker", "--allow-private"),
		env.role(t, "", dir("b"), filter.URL, "worker", "--allow-private"),
	}
	job := write(t, master.dir, "news.yaml", "name: news\nfilter: uri_download\nsetting: {delay: 0s, concurrency: 4, dispatch: 20}\n")
	master.must("", "job", "add", job)
	master.must(s.pages(pages), "job", "uris", "news")
	workers[0].Kill()
	if got := master.settled("news", pages); got["done"] != pages*9/10 || got["failed"] != pages/10 {
		t.Errorf("tasks: %v", got)
	}
	if lines := strings.Count(master.must("", "data", "news", "--json"), "\n"); lines != pages*9/10 {
		t.Errorf("%d data, want %d", lines, pages*9/10)
	}
}

// TestMongoDBIsRefused: errors are reported at the start, with the next step.
func TestMongoDBIsRefused(t *testing.T) {
	t.Setenv("URIDOWNLOADER_STORE", "mongodb")
	for name, c := range map[string]struct{ key, value, want string }{
		"no uri":   {"URIDOWNLOADER_MONGODB_DATABASE", "d", "mongodb.uri"},
		"no file":  {"URIDOWNLOADER_MONGODB_URI_FILE", filepath.Join(t.TempDir(), "none"), "mongodb.uri_file"},
		"mistyped": {"URIDOWNLOADER_MONGODB_URI", "mongodb://u:tops3cret@h:x/", "mongodb.uri: a port is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(c.key, c.value)
			text, err := newProgram("serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0").CombinedOutput()
			if err == nil || !strings.Contains(string(text), c.want) || strings.Contains(string(text), "tops3cret") {
				t.Errorf("%v, %s: want %q", err, text, c.want)
			}
		})
	}
}
