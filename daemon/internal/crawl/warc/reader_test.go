package warc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/npmtest"
)

// TestSystemWarcio: a public reader understands our files. It is the npm package warcio, in the
// versions of testdata/reader/package-lock.json.
func TestSystemWarcio(t *testing.T) {
	t.Parallel()
	reader := npmtest.Install(t, os.DirFS("testdata/reader"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	dir := t.TempDir()
	w := open(t, dir, Position{}, Options{Size: 20_000, Info: [][2]string{{"software", "uridownloader"}}})
	bodies := map[string]string{}
	for i := range 20 {
		x := page(i, 4*i*i*100)
		add(t, w, x)
		bodies[x.URI] = string(x.Body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 1 {
		t.Fatal(files, err)
	}
	read := exec.CommandContext(ctx, "node", append([]string{"read.mjs"}, files...)...)
	read.Dir = reader
	out, err := read.Output()
	if err != nil {
		t.Fatalf("read.mjs: %v\n%s", err, err.(*exec.ExitError).Stderr)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(string(out)) {
		var r struct {
			Version, Type, URI, Date, Payload, HTTP, ContentType, Body, Digest string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		kinds[r.Type]++
		body, err := base64.StdEncoding.DecodeString(r.Body)
		if err != nil || r.Version != "WARC/1.1" || r.Date != "2026-11-23T04:05:06.789Z" {
			t.Errorf("%s: %v", line, err)
		}
		if r.Type == "response" && (string(body) != bodies[r.URI] || r.Payload != r.Digest || r.HTTP != "HTTP/1.1 200 OK" || r.ContentType != "text/html") {
			t.Errorf("%s: %d bytes, %s %s %s; want those that were written", r.URI, len(body), r.Digest, r.HTTP, r.ContentType)
		}
	}
	if want := fmt.Sprint(map[string]int{"warcinfo": len(files), "request": 20, "response": 20}); fmt.Sprint(kinds) != want {
		t.Errorf("got %v, want %s", kinds, want)
	}
}
