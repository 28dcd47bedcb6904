package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSystemJobCode has the released program run the code of jobs: a job that walks a site, and
// beside it others that do forbidden things.
func TestSystemJobCode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := released(t)
	p.start()
	t.Cleanup(p.Kill)
	add := func(name, code string) {
		t.Helper()
		write(t, p.dir, name+".star", code)
		p.must("", "job", "add", write(t, p.dir, name+".yaml",
			"name: "+name+"\nuris: ["+s.URL+"/page/0]\ncode: "+name+".star\n"+
				"setting: {download_engine: script, delay: 10ms, max_download_times: 1, timeout: 5m}\n"))
	}
	hostile := map[string]string{
		"memory": "def download(task):\n    x = [1]\n    while True:\n        x = x + x\n",
		"depth":  "def f():\n    f()\n    return 1\ndef download(task): f()\n",
		"links":  "def download(task):\n    for i in range(1000000): follow('/%d' % i)\n",
		"fault":  "def download(task):\n    return task.nobody\n",
	}
	for name, code := range hostile {
		add(name, code)
	}
	add("walk", `
def download(task):
    page = fetch(task.uri)
    n = int(task.uri.split("/")[-1])
    if n < 12:
        follow("/page/%d" % (n + 1 if n != 6 else 8))
    emit({"n": n, "text": html.select(page, "p")[0].text})
    emit("second")
    return page
`)
	if got := p.settled("walk", 12); got["done"] != 12 {
		t.Errorf("walk: %v, want 12 done", got)
	}
	if data := p.must("", "data", "walk", "--json"); strings.Count(data, `"second"]`) != 12 || !strings.Contains(data, `"json_data":[{"n":11,"text":"/page/11"},"second"]`) {
		t.Errorf("data: %s", data)
	}
	for name, want := range map[string]string{
		"memory": "memory: memory.star: wanted more than 256 MiB", "depth": "has more than 1000 calls in calls",
		"links": "links.star:2:36: follow: more than 10000 links", "fault": "fault.star:2:16: ",
	} {
		p.settled(name, 1)
		if log := p.must("", "logs", name); !strings.Contains(log, want) {
			t.Errorf("%s: %s, want %q", name, log, want)
		}
	}
	// A fault is reported before anything is sent, and the job stays unchanged.
	write(t, p.dir, "walk.star", "def download(task):\n    fech(task.uri)\n")
	if code, _, errOut := p.run("", "job", "change", filepath.Join(p.dir, "walk.yaml")); code != 1 || !strings.Contains(errOut, "walk.star:2:5: undefined: fech") {
		t.Errorf("change: %d, %s", code, errOut)
	}
	if shown := p.must("", "job", "show", "walk", "--json"); !strings.Contains(shown, `"version":1`) || !strings.Contains(shown, `"sha256":"`) {
		t.Errorf("job: %s", shown)
	}
}
