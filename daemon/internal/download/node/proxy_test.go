package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A job's proxy is no way round allow_private: it is refused with the job, or when its name is resolved.
func TestJobProxyIsGuarded(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "a secret of the network")
	}))
	t.Cleanup(inside.Close)
	port := inside.URL[strings.LastIndex(inside.URL, ":")+1:]
	job := func(name, proxy string) string {
		return `{"name":"` + name + `","uris":["http://93.184.215.14/"],"setting":{"robots":false,"max_download_times":1,"proxy":["` + proxy + `"]}}`
	}
	cfg := testSettings(t)
	cfg.AllowPrivate = false
	n := open(t, cfg, All())
	for _, proxy := range []string{inside.URL, "socks5://127.0.0.1:" + port, "http://169.254.169.254", "http://[::1]:" + port} {
		for _, path := range []string{"/api/v1/jobs", "/api/v1/check"} {
			if code, text := n.call("POST", path, job("a", proxy)); code != 422 || !strings.Contains(text, "setting.proxy[0]") || !strings.Contains(text, "proxies.allowed") {
				t.Errorf("%s by %s: %d %s", proxy, path, code, text)
			}
		}
	}
	if code, text := n.call("POST", "/api/v1/jobs", job("named", "http://localhost:"+port)); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	n.until("/api/v1/jobs/named", `"failed":1`)
	if _, text := n.call("GET", "/api/v1/jobs/named/tasks", ""); !strings.Contains(text, "refused_proxy: ") {
		t.Errorf("tasks: %s", text)
	}
	if asked.Load() != 0 {
		t.Error("the proxy was called")
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir, cfg.Proxies.Allowed = t.TempDir(), []string{"127.0.0.1:" + port}
	n = open(t, cfg, All())
	if code, text := n.call("POST", "/api/v1/jobs", job("allowed", inside.URL)); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	n.until("/api/v1/jobs/allowed", `"done":1`)
}
