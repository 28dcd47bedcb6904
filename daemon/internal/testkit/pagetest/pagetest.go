// Package pagetest opens pages of our programs in a headless Chromium, for tests: as a browser of some width, colours
// and language shows them, with what axe-core (npm) and the browser's console have to say about them.
package pagetest

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/npmtest"
)

// patience is how long the browser may take for anything.
const patience = 2 * time.Minute

type object = map[string]any

// Browser is a running Chromium.
type Browser struct {
	t    *testing.T
	conn *devtools.Conn

	mu      sync.Mutex
	loaded  map[string]chan struct{} // by session: has room for one
	console map[string][]string      // by session: what the browser complained of
}

// Start starts a browser, which ends with the test. Without one the test is skipped.
func Start(t *testing.T) *Browser {
	t.Helper()
	path, err := chromium.Find("")
	if err != nil {
		t.Skip(err)
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &Browser{t: t, loaded: map[string]chan struct{}{}, console: map[string][]string{}}
	b.conn = devtools.New(in, out, devtools.Options{MaxMessage: 64 << 20, Handle: b.handle})
	t.Cleanup(func() {
		_ = b.conn.Tell("", "Browser.close", nil)
		select {
		case <-b.conn.Done():
		case <-time.After(patience):
		}
		cancel()
		_ = cmd.Wait() // it was told to end
		in.Close()
		out.Close()
	})
	return b
}

func (b *Browser) handle(e devtools.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.Method {
	case "Page.loadEventFired":
		select {
		case b.loaded[e.Session] <- struct{}{}:
		default:
		}
	case "Log.entryAdded", "Runtime.exceptionThrown":
		if strings.Contains(string(e.Params), `"source":"network"`) {
			break // a status of 400 or more, which the test asks for
		}
		b.console[e.Session] = append(b.console[e.Session], string(e.Params))
	}
}

// Look is how a tab shows pages.
type Look struct {
	Width    int // in pixels
	Dark     bool
	Language string // of Accept-Language; "": en
	NoScript bool
}

// Tab is one page at a time, with cookies of its own.
type Tab struct {
	b       *Browser
	session string
	loaded  chan struct{}
}

// Tab opens one.
func (b *Browser) Tab(l Look) *Tab {
	b.t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	b.call("", "Target.createBrowserContext", object{}, &made)
	b.call("", "Target.createTarget", object{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made)
	b.call("", "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &made)
	tab := &Tab{b: b, session: made.SessionID, loaded: make(chan struct{}, 1)}
	b.mu.Lock()
	b.loaded[tab.session] = tab.loaded
	b.mu.Unlock()
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	tab.call("Page.enable", nil, nil)
	tab.call("Log.enable", nil, nil)
	tab.call("Runtime.enable", nil, nil)
	tab.call("Emulation.setDeviceMetricsOverride", object{"width": l.Width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	tab.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	tab.call("Emulation.setUserAgentOverride", object{"userAgent": "pagetest", "acceptLanguage": cmp.Or(l.Language, "en")}, nil)
	tab.call("Emulation.setScriptExecutionDisabled", object{"value": l.NoScript}, nil)
	return tab
}

func (b *Browser) call(session, method string, params, result any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if params == nil {
		params = object{}
	}
	if err := b.conn.Call(ctx, session, method, params, result); err != nil {
		b.t.Fatal(err)
	}
}

func (t *Tab) call(method string, params, result any) {
	t.b.t.Helper()
	t.b.call(t.session, method, params, result)
}

// Open loads an address, and waits until it is there.
func (t *Tab) Open(url string) {
	t.b.t.Helper()
	t.Loading(func() { t.call("Page.navigate", object{"url": url}, nil) })
}

// Loading waits for the page that do leads to.
func (t *Tab) Loading(do func()) {
	t.b.t.Helper()
	select {
	case <-t.loaded:
	default:
	}
	do()
	select {
	case <-t.loaded:
	case <-t.b.conn.Done():
		t.b.t.Fatal(t.b.conn.Err())
	case <-time.After(patience):
		t.b.t.Fatal("the page was not loaded")
	}
}

// Eval runs JavaScript and reads its result, nil for none. A promise is waited for.
func (t *Tab) Eval(script string, result any) {
	t.b.t.Helper()
	var answer struct {
		Result    struct{ Value json.RawMessage }
		Exception *struct{ Exception struct{ Description string } } `json:"exceptionDetails"`
	}
	t.call("Runtime.evaluate", object{"expression": script, "awaitPromise": true, "returnByValue": true}, &answer)
	if answer.Exception != nil {
		t.b.t.Fatalf("%.200s: %s", script, answer.Exception.Exception.Description)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result.Value, result); err != nil {
			t.b.t.Fatalf("%.200s: %v", script, err)
		}
	}
}

// Complaints are what the browser has complained of since the last call: refused scripts, failed requests, errors.
func (t *Tab) Complaints() []string {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	all := t.b.console[t.session]
	t.b.console[t.session] = nil
	return all
}

// Shoot checks that the page is not wider than the browser and, with go test -artifacts, writes a picture of the whole page
// into the test's folder.
func (t *Tab) Shoot(name string) {
	t.b.t.Helper()
	var size struct{ Wide, Inner float64 }
	t.Eval(`({wide: document.documentElement.scrollWidth, inner: innerWidth})`, &size)
	if size.Wide > size.Inner {
		t.b.t.Errorf("%s: the page is %v pixels wide, the browser %v", name, size.Wide, size.Inner)
	}
	if kept := flag.Lookup("test.artifacts"); kept == nil || kept.Value.String() != "true" {
		return
	}
	var shot struct{ Data []byte }
	t.call("Page.captureScreenshot", object{"captureBeyondViewport": true}, &shot)
	if err := os.WriteFile(filepath.Join(t.b.t.ArtifactDir(), name+".png"), shot.Data, 0o644); err != nil {
		t.b.t.Fatal(err)
	}
}

//go:embed axe
var axe embed.FS

// Axe returns the script of axe-core, which is installed from npm. Without npm the test is skipped.
func Axe(t *testing.T) string {
	t.Helper()
	files, err := fs.Sub(axe, "axe")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(npmtest.Install(t, files), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// Accessible fails for whatever axe-core finds on the page.
func (t *Tab) Accessible(name, axe string) {
	t.b.t.Helper()
	t.Eval(axe+"; 0", nil)
	var found struct {
		Violations []struct {
			ID, Help string
			Nodes    []struct{ HTML, FailureSummary string }
		}
	}
	t.Eval(`axe.run()`, &found)
	for _, v := range found.Violations {
		var where []string
		for _, n := range v.Nodes[:min(3, len(v.Nodes))] {
			where = append(where, fmt.Sprintf("%.200s: %s", n.HTML, n.FailureSummary))
		}
		t.b.t.Errorf("%s: %s: %s (%d)\n%s", name, v.ID, v.Help, len(v.Nodes), strings.Join(where, "\n"))
	}
}
