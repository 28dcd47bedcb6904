//go:build linux

package browserengine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func soon(s *download.Setting) { s.Timeout = 3 * time.Second }

// Pages that never end, or are too large, end in time with a named reason, and the next page is unaffected.
func TestSystemHostilePages(t *testing.T) {

	endless := func(w http.ResponseWriter, r *http.Request, text string) {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	s := newSite(t, map[string]string{
		"/fine":   "<p>fine",
		"/loop":   "<script>for (;;) {}</script>",
		"/alert":  "<script>for (;;) alert('again')</script>",
		"/leave":  "<script>onbeforeunload = e => e.preventDefault(); setInterval(() => { location = '/leave?' + Math.random() }, 1)</script>",
		"/reload": "<script>location.reload()</script>",
		"/memory": "<script>const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1))</script>",
		"/heap":   "<script>const all = []; for (;;) all.push({a: [all.length], b: 'x' + all.length})</script>",
		"/dom":    "<script>const s = document.createElement('script'); s.type = 'x'; s.textContent = 'x'.repeat(9e6); document.documentElement.append(s)</script>",
		"/frames": "<script>if (location.search.length < 5000) for (let i = 0; i < 20; i++) { const f = document.createElement('iframe'); f.src = '/frames' + location.search + '?' + i; document.documentElement.append(f) }</script>",
		"/poll":   "<p>poll<script>const ask = () => fetch('/fine?' + Math.random()).then(ask); ask()</script>",
		"/burst":  "<p>burst<script>for (let i = 0; i < 5000; i++) fetch('/fine?' + i).catch(() => {})</script>",
		"/hang":   "<p>hang<script>fetch('/never')</script>",
		"/waits":  "<p>waits<script src=/never></script>",
	}, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/gigabyte":
			w.Header().Set("Content-Type", "text/html")
			endless(w, r, strings.Repeat("<p>x", 1000))
		case "/never":
			<-r.Context().Done()
		default:
			return false
		}
		return true
	})
	e := ownEngine(t, func(o *Options) { o.Settle = time.Second; o.Memory = 512 << 20 })
	for _, hostile := range []struct {
		path string
		want string // "": it is stored
	}{
		{"/loop", "timeout: "}, {"/alert", "timeout: "}, {"/leave", "too_many_redirects: "}, {"/reload", "too_many_redirects: "}, // or stored, if it pauses
		{"/memory", ""}, {"/heap", "any"}, {"/dom", "too_large: "}, {"/frames", "any"}, {"/poll", ""}, {"/burst", ""}, {"/hang", ""},
		{"/waits", "timeout: "}, {"/gigabyte", "too_large: "},
	} {
		t.Run(hostile.path[1:], func(t *testing.T) {
			change := func(s *download.Setting) { s.Timeout = 2 * time.Minute }
			if hostile.want == "timeout: " {
				change = soon
			}
			page, failure := attemptAt(t, e, s.work(hostile.path, change))
			switch {
			case failure == nil && hostile.want == "":
				t.Logf("stored %d bytes", len(page.text))
			case failure == nil && hostile.want == "too_many_redirects: ": // where the machine is so busy that the page is as quiet as a finished one
				if !strings.Contains(page.text, hostile.path[1:]) {
					t.Errorf("what is stored between two documents is none of them: %s", page.text)
				}
			case hostile.want == "any": // depends on the machine
				t.Logf("%d bytes, %+v", len(page.text), failure)
			case failure == nil || hostile.want == "" || !strings.HasPrefix(failure.Reason, hostile.want):
				t.Errorf("got %d bytes, %+v, want %q", len(page.text), failure, hostile.want)
			default:
				t.Log(failure.Reason)
			}
			if page := good(t, e, s.work("/fine")); !strings.Contains(page.text, "<p>fine") {
				t.Errorf("after it: %s", page.text)
			}
		})
	}
}

// children returns the processes of a group.
func children(t *testing.T, group int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var parent, of int
		if _, err := fmt.Sscan(rest, &state, &parent, &of); err == nil && of == group && state != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until a group has no process.
func gone(t *testing.T, group int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left := children(t, group)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes of the browser are left", len(left))
		}
	}
}

// Killing a browser under a page ends that attempt with a named reason; the next gets another browser.
func TestSystemBrowserKilled(t *testing.T) {

	asked := make(chan bool, 10)
	s := newSite(t, map[string]string{"/fine": "<p>fine"}, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/slow" {
			asked <- true
			<-r.Context().Done()
		}
		return r.URL.Path == "/slow"
	})
	e := ownEngine(t)
	for _, which := range []string{"first", "others"} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := e.Download(ctx, s.work("/slow"))
			failed <- err
		}()
		<-asked
		groups := ownBrowsers(t)
		for _, group := range groups {
			for _, pid := range children(t, group) {
				if (pid == group) == (which == "first") {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		err := <-failed
		if err == nil || !strings.HasPrefix(err.Error(), "browser: ") && !strings.HasPrefix(err.Error(), "crash: ") {
			t.Errorf("%s process killed: got %v", which, err)
		}
		cancel()
		for _, group := range groups {
			gone(t, group)
		}
		if page := good(t, e, s.work("/fine")); !strings.Contains(page.text, "fine") {
			t.Errorf("after it: %s", page.text)
		}
	}
	// A worker that is stopped leaves nothing, either.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := e.Download(ctx, s.work("/slow")); err == nil || ctx.Err() == nil {
		t.Errorf("got %v", err)
	}
	for _, group := range ownBrowsers(t) {
		gone(t, group)
	}
}

// ownBrowsers returns the groups of browsers that this process has started, except that of the shared one.
func ownBrowsers(t *testing.T) (groups []int) {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(os.Getpid())).Output()
	if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(out)) {
		pid, _ := strconv.Atoi(line)
		args, _ := os.ReadFile(filepath.Join("/proc", line, "cmdline"))
		if strings.Contains(string(args), "--remote-debugging-pipe") && !(shared.dir != "" && strings.Contains(string(args), shared.dir)) {
			groups = append(groups, pid)
		}
	}
	return groups
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}
