package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program whose disk fails, under its store or under its own filter, ends by itself, so that its
// service manager starts it again. Everything that it has acknowledged is there then.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skipf("%v; on Debian: apt-get install strace", err)
	}
	under := map[string][]string{"store": {"store/download.db-wal"}, "filter": nil}
	for n := range 9 {
		under["filter"] = append(under["filter"], fmt.Sprintf("filter/filters/4-uri_download/journal-%016d", n+1))
	}
	for name, files := range under {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &process{t: t, dir: t.TempDir()}
			t.Cleanup(p.Kill)
			command := "URIDOWNLOADER_TEST_PROGRAM=1 exec strace -f -qq -o /dev/null -e trace=fsync,fdatasync -e inject=fsync,fdatasync:error=EIO:when=30+"
			for _, file := range files {
				command += " -P " + filepath.Join(p.dir, "data", file)
			}
			p.program = write(t, p.dir, "traced.sh", "#!/bin/sh\n"+command+" "+os.Args[0]+" \"$@\"\n")
			if err := os.Chmod(p.program, 0o700); err != nil {
				t.Fatal(err)
			}
			p.start()
			p.must("", "job", "add", write(t, p.dir, "news.yaml", "name: news\nfilter: uri_download\nsetting: {delay: 0s}\n"))
			p.must("", "job", "pause", "news")
			var acknowledged []string
			for n := range 10_000 {
				uri := fmt.Sprintf("http://127.0.0.1:1/%d", n)
				resp, err := http.Post("http://"+p.addr+"/api/v1/jobs/news/uris", "text/plain", strings.NewReader(uri))
				if err != nil {
					break // it has ended
				}
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					acknowledged = append(acknowledged, uri)
				}
			}
			code := p.Wait(3 * time.Minute)
			log, err := os.ReadFile(filepath.Join(p.dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			if code != 1 || !strings.Contains(string(log), "stopped because the disk failed: ") {
				t.Errorf("exit code %d, want 1 and the reason:\n%s", code, log)
			}
			if len(acknowledged) < 10 {
				t.Errorf("%d URIs were acknowledged: nothing was tried", len(acknowledged))
			}
			p.program = ""
			p.start()
			if tasks := p.tasks("news"); tasks["waiting"] < len(acknowledged) {
				t.Errorf("%d URIs were acknowledged; tasks: %v", len(acknowledged), tasks)
			}
			if out := p.must(strings.Join(acknowledged, "\n"), "job", "uris", "news"); !strings.Contains(out, fmt.Sprintf("%d seen by its filter", len(acknowledged))) {
				t.Errorf("%d URIs were acknowledged; again: %s", len(acknowledged), out)
			}
		})
	}
}
