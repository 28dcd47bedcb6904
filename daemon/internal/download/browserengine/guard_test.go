//go:build linux

package browserengine

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// private is a server at a forbidden address, which counts connections, and a UDP port.
func private(t *testing.T) (address string, called *atomic.Int64) {
	t.Helper()
	called = new(atomic.Int64)
	l, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		fmt.Fprint(w, "secret")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			called.Add(1)
		}
	}
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	udp, err := net.ListenPacket("udp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	t.Cleanup(func() { _ = udp.Close(); <-done })
	go func() {
		defer close(done)
		for {
			if _, _, err := udp.ReadFrom(make([]byte, 2000)); err != nil {
				return
			}
			called.Add(1)
		}
	}()
	return l.Addr().String(), called
}

// ways are the ways in which a page may try to reach an address. Each puts what it found into a name.
const ways = `<!doctype html><title>ways</title>
<link rel=dns-prefetch href=http://ADDRESS/><link rel=preconnect href=http://ADDRESS/><link rel=prefetch href=http://ADDRESS/a>
<link rel=stylesheet href=http://ADDRESS/b><script src=http://ADDRESS/c></script><iframe src=http://ADDRESS/d></iframe>
<object data=http://ADDRESS/o></object><embed src=http://ADDRESS/e><video src=http://ADDRESS/v></video><form id=f target=other action=http://ADDRESS/f></form>
<body><script>
const found = window.found = {};
const to = 'http://ADDRESS/';
const note = (name, p) => p.then(x => found[name] = 'got ' + x, e => found[name] = 'no');
const later = (ms) => new Promise(done => setTimeout(done, ms));
const tries = [
  note('fetch', fetch(to).then(r => r.text())),
  note('opaque', fetch(to, {mode: 'no-cors'})),
  note('redirected', fetch('/redirect').then(r => r.text())),
  note('metadata', fetch('http://169.254.169.254/latest/meta-data/').then(r => r.text())),
  note('name', fetch('http://localhost.ADDRESS/').then(r => r.text())),
  note('file', fetch('file:///etc/passwd').then(r => r.text())),
  note('socket', new Promise((ok, no) => { const s = new WebSocket('ws://ADDRESS/'); s.onopen = () => ok(1); s.onerror = no })),
  note('own socket', new Promise((ok, no) => { const s = new WebSocket(location.href.replace('http', 'ws')); s.onopen = () => ok(1); s.onerror = no })),
  note('events', new Promise((ok, no) => { const s = new EventSource(to); s.onopen = () => ok(1); s.onerror = no })),
  note('worker', new Promise((ok, no) => {
    const w = new Worker(URL.createObjectURL(new Blob(["fetch('" + to + "').then(r => r.text()).then(t => postMessage('got'), e => postMessage('no'))"])));
    w.onmessage = m => m.data == 'got' ? ok(1) : no(1); w.onerror = no })),
  note('service worker', Promise.race([navigator.serviceWorker ? navigator.serviceWorker.register('/sw.js') : Promise.reject(), later(400).then(() => Promise.reject())])),
  note('webrtc', new Promise((ok, no) => {
    const c = new RTCPeerConnection({iceServers: [{urls: 'stun:ADDRESS'}, {urls: 'turn:ADDRESS?transport=tcp', username: 'a', credential: 'b'}]});
    c.onicecandidate = e => e.candidate ? ok(e.candidate.candidate) : no(1); c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o)); later(1500).then(no) })),
];
try { found.popup = window.open(to) ? 'got' : 'no' } catch (e) { found.popup = 'no' }
document.getElementById('f').submit();
navigator.sendBeacon(to, 'x');
window.ended = Promise.all(tries);
</script>`

// However a page tries, nothing reaches a refused address, and the page is stored.
func TestNoWayAround(t *testing.T) {
	address, called := private(t)
	s := newSite(t, map[string]string{"/": strings.ReplaceAll(ways, "ADDRESS", address), "/sw.js": "self"}, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "http://"+address+"/", http.StatusFound)
			return true
		}
		return false
	})
	page := good(t, sharedEngine(t), s.work("/", func(s *download.Setting) { s.Script = "await window.ended; return window.found" }))
	record := string(page.Records)
	if strings.Contains(record, "got") || strings.Count(record, `"no"`) != 13 {
		t.Errorf("the page found %s", record)
	}
	if n := called.Load(); n != 0 {
		t.Errorf("the address was called %d times", n)
	}
	if s.was("GET /redirect") != 1 || s.was("GET /sw.js") != 0 {
		t.Errorf("asked %q", s.asked)
	}
}

// If the page itself is refused, the reason is the same as without a browser.
func TestRefusedDocuments(t *testing.T) {
	address, called := private(t)
	s := newSite(t, map[string]string{"/": "<title>t</title>", "/robots.txt": "User-agent: *\nDisallow: /closed", "/closed": "x",
		"/leaves": "<script>location = 'http://" + address + "/'</script>",
		"/ok":     "<p>ok<script>fetch('/closed/data').catch(e => document.body.append('refused'))</script>"}, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://"+address+"/", http.StatusFound)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round?"+r.URL.RawQuery+"x", http.StatusFound)
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	})
	e := sharedEngine(t)
	robots := func(s *download.Setting) { s.Robots = true }
	for path, want := range map[string]string{
		"/away": "refused_address: http://" + address, "/leaves": "refused_address: http://" + address, "/missing": "status: ", "/closed": "robots: ",
		"/round": "too_many_redirects: ", "/busy": "status: ", "/file": "bad_redirect: ",
	} {
		f := bad(t, e, s.work(path, robots))
		if !strings.HasPrefix(f.Reason, want) || f.Permanent == (path == "/busy") {
			t.Errorf("%s: got %+v, want %q", path, f, want)
		}
		if busy := path == "/busy"; f.Crowded != busy || busy && (f.After != 7*time.Second || f.Status != 503) {
			t.Errorf("%s: got %+v", path, f)
		}
	}
	if n := called.Load(); n != 0 {
		t.Errorf("the address was called %d times", n)
	}
	if page := good(t, e, s.work("/ok", robots)); !strings.Contains(page.text, "refused") || s.was("GET /closed/data") != 0 || s.was("GET /closed") != 0 {
		t.Errorf("robots.txt was not heeded: %s, %q", page.text, s.asked)
	}
	if f := bad(t, e, s.work("/", func(s *download.Setting) { s.MaxBytes = 5 })); !strings.HasPrefix(f.Reason, "too_large: ") || !f.Permanent {
		t.Errorf("got %+v", f)
	}
}
