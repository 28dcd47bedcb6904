package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerify: a crawl and a store are sound; a byte later they are not, and the command says what is damaged.
func TestVerify(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<a href=/b>b</a>" + strings.Repeat("x", 2<<20)))
	}))
	t.Cleanup(site.Close)
	p := start(t)
	p.must("", "job", "add", write(t, t.TempDir(), "j.yaml", "name: j\nuris: ["+site.URL+"/a]\nsetting: {robots: false}\n"))
	p.settled("j", 1)
	data := filepath.Join(p.dir, "data")
	crawled := filepath.Join(t.TempDir(), "out")
	if code, _, errOut := runIn(t, "crawl", site.URL+"/", "--allow-private", "--delay", "0", "--max-pages", "2", "--warc", "--out", crawled); code != 0 {
		t.Fatal(errOut)
	}
	for _, c := range []struct {
		of    []string
		file  string
		names string
	}{
		{[]string{"--data-dir", data}, filepath.Join(data, "store", "bodies", "*", "*"), "job j, task"},
		{[]string{"--crawl", crawled}, filepath.Join(crawled, "pages", "*", "b*"), site.URL + "/b"},
		{[]string{"--crawl", crawled}, filepath.Join(crawled, "warc", "*"), "crawl-00000.warc.gz: record at byte 0: "},
	} {
		args := append([]string{"verify"}, c.of...)
		if code, out, errOut := runIn(t, args...); code != 0 || !strings.Contains(out, "sound") {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, errOut)
		}
		files, err := filepath.Glob(c.file)
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		text[100] ^= 1
		if err := os.WriteFile(files[0], text, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errOut := runIn(t, args...); code != 1 || !strings.Contains(out, c.names) || !strings.Contains(errOut, "hint: ") {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, errOut)
		}
		code, out, _ := runIn(t, append(args, "--json")...)
		text[100] ^= 1 // for the next
		if err := os.WriteFile(files[0], text, 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var summary struct {
			Event   string
			Sound   bool
			Damaged int
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); code != 1 || len(lines) != 2 || err != nil || summary.Event != "summary" || summary.Sound || summary.Damaged != 1 {
			t.Errorf("%v: exit code %d, %s, %v", args, code, out, err)
		}
	}
	for _, args := range [][]string{{"verify", "--data-dir", t.TempDir()}, {"verify", "--crawl", t.TempDir()}, {"verify", "--crawl", crawled, "--data-dir", data}} {
		if code, out, errOut := runIn(t, args...); code == 0 {
			t.Errorf("%v: %s%s", args, out, errOut)
		}
	}
	none := t.TempDir()
	want := "uridownloader: " + none + ": there is no crawl in this folder\nhint: name the folder that `uridownloader crawl` has as its --out\n"
	if code, out, errOut := runIn(t, "verify", "--crawl", none); code != 1 || out != "" || errOut != want {
		t.Errorf("without a crawl: exit code %d, %q, %q", code, out, errOut)
	}
}

func runIn(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}
