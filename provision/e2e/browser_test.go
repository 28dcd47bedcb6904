package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
)

// tryBrowser: where the settings require a browser and name a Python interpreter, the toolkit
// installs both, and jobs that use them run in their jails under the hardened unit.
func tryBrowser(t *testing.T) {
	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "down", Roles: "downloader"}}})
	l.WriteInventory(t, l.Inventory(t)+fmt.Sprintf("downloader: {binary: %q, settings: {listen: '0.0.0.0:8001', allow_private: true, browser: {required: true}, script: {python: /usr/bin/python3}}}\n",
		l.Downloader(t, "first")))
	pages := servePages(t, l.Sandbox.Gateway)
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=news", "-program=uridownloader").Stdout)
	if got := l.Must(t, "plan").Text(); !strings.Contains(got, "install python3, chromium-headless-shell") {
		t.Errorf("the plan does not tell of packages:\n%s", got)
	}
	l.Must(t, "deploy")
	l.Must(t, "plan", "-exitCode")
	if got := l.Sh(t, "down", "systemctl show -P MemoryDenyWriteExecute -P NoNewPrivileges -P RestrictNamespaces -P ProtectSystem uridownloader"); got != "strict\nyes\nyes\nyes" {
		t.Errorf("the unit has\n%s", got)
	}

	s := submitter{fmt.Sprintf("http://%s:8001", l.Hosts["down"].Address), token}
	for name, job := range map[string]string{
		"browser": `"setting": {"delay": "1ms", "download_engine": "browser", "download_js": "return 6 * 7 + ' ' + document.querySelector('p').textContent"}`,
		"python":  `"setting": {"delay": "1ms", "download_engine": "script"}, "code": {"file": "code.py", "text": "import re\n\ndef download(task):\n    page = fetch(task.uri)\n    emit(re.sub('<[^>]*>', '', page.text))\n    return page\n"}`,
	} {
		text := fmt.Sprintf(`{"name": %q, "uris": ["%s/page/%s"], %s}`, name, pages.url, name, job)
		if status, text := s.call(t, "POST", "/api/v1/jobs", text); status != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, status, text)
		}
		s.done(t, name, 1)
		if _, data := s.call(t, "GET", "/api/v1/jobs/"+name+"/data", ""); !strings.Contains(data, "this is /page/"+name) || name == "browser" && !strings.Contains(data, "42 this is") {
			t.Errorf("%s: the data are %s", name, data)
		}
	}
	// A child that the browser has just forked still has the browser's command line, so only
	// processes whose parent is not a browser are counted.
	browsers, parents := map[string]bool{}, []string{}
	for line := range strings.Lines(l.Sh(t, "down", "ps -u uridownloader -ww -o pid=,ppid=,args=")) {
		words := strings.Fields(line)
		if len(words) < 3 || !strings.Contains(line, "--remote-debugging-pipe") {
			continue
		}
		if !strings.Contains(line, "--js-flags=--jitless") {
			t.Errorf("a browser does not know that it cannot compile: %s", line)
		}
		browsers[words[0]] = true
		parents = append(parents, words[1])
	}
	if roots := len(slices.DeleteFunc(parents, func(p string) bool { return browsers[p] })); roots != 1 {
		t.Errorf("%d browsers run, want 1", roots)
	}
}
