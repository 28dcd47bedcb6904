package main

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// endless repeats a text until the client closes the connection.
func endless(head, text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, head)
		for err == nil {
			_, err = io.WriteString(conn, text)
		}
	}
}

func once(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, text) }
}

// bomb is an answer whose body is 256 MiB of zeroes, compressed.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	zeroes := make([]byte, 1<<20)
	for range 256 {
		if _, err := w.Write(zeroes); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
}

// TestSystemHostileServers: one job has the URIs of all kinds of hostile servers, and good ones in between.
// Each ends within its bounds, with a reason that says what was wrong, and the worker continues.
func TestSystemHostileServers(t *testing.T) {
	n := newInternet(t)
	ca, stranger := certtest.New(t, "known"), certtest.New(t, "unknown")
	p := &process{t: t, dir: t.TempDir(), addr: testserver.Free(t)}
	program := func(args ...string) *exec.Cmd {
		cmd := n.command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "URIDOWNLOADER_TEST_PROGRAM=1", "SSL_CERT_FILE="+ca.File, "SSL_CERT_DIR=/nonexistent")
		return cmd
	}
	if !p.Start(t, program("serve", "--data-dir", filepath.Join(p.dir, "data"), "--listen", p.addr), filepath.Join(p.dir, "log"), []string{`"msg":"ready"`}, nil) {
		t.Fatal("the program does not start")
	}
	t.Cleanup(p.Kill)
	must := func(in string, args ...string) string {
		t.Helper()
		cmd := program(append(args, "--server", "http://"+p.addr)...)
		cmd.Stdin = strings.NewReader(in)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, text)
		}
		return string(text)
	}
	settled := func(job string, want int) map[string]int {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
			var j struct{ Tasks map[string]int }
			if err := json.Unmarshal([]byte(must("", "job", "show", job, "--json")), &j); err != nil {
				t.Fatal(err)
			}
			if j.Tasks["done"]+j.Tasks["failed"] == want {
				return j.Tasks
			}
			if time.Now().After(deadline) {
				t.Fatalf("after 5 min: %v\n%s", j.Tasks, must("", "tasks", job, "--state", "running"))
			}
		}
	}

	good := n.handle(goodHost, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "<p>%s</p>", r.URL.Path)
	})
	want := map[string]string{} // by URI the reason, as a regular expression; "" for a page
	for reason, uris := range n.hostile(p.addr, ca, stranger) {
		for _, uri := range uris {
			want[uri] = reason
		}
	}
	var redirects, robots atomic.Int64
	ten := n.handle(badHost, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "/"+strconv.FormatInt(redirects.Add(1), 10), http.StatusFound)
	})
	want[ten+"/page"] = "too_many_redirects: "
	hundred := n.handle(badHost, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			_, _ = io.WriteString(w, "page")
			return
		}
		k, err := io.WriteString(w, "User-agent: *\nDisallow: /private\n")
		line := strings.Repeat("Disallow: /nothing\n", 1000)
		for err == nil && k < 100<<20 {
			var more int
			more, err = io.WriteString(w, line)
			k += more
		}
		robots.Store(int64(k))
	})
	want[hundred+"/page"], want[hundred+"/private"] = "", "robots: .*robots.txt of the host forbids it"

	var list strings.Builder
	i := 0
	for uri := range want {
		fmt.Fprintf(&list, "%s\n%s/%d\n", uri, good, i)
		i++
	}
	for k := range i {
		want[fmt.Sprintf("%s/%d", good, k)] = ""
	}
	job := write(t, p.dir, "hostile.yaml", "name: hostile\nsetting: {delay: 0s, concurrency: 100, dispatch: 1000, timeout: 30s, max_bytes: 1MiB, max_download_times: 1}\n")
	must("", "job", "add", job)
	began := time.Now()
	must(list.String(), "job", "uris", "hostile")
	t.Logf("%v after %v", settled("hostile", len(want)), time.Since(began).Round(time.Second))
	for line := range strings.Lines(must("", "tasks", "hostile", "--json")) {
		var task struct {
			URI, State string
			Reason     string `json:"failed_reason"`
			Attempts   int
		}
		if err := json.Unmarshal([]byte(line), &task); err != nil {
			t.Fatal(err)
		}
		reason, known := want[task.URI]
		matches, err := regexp.MatchString("^("+reason+")", task.Reason)
		if err != nil || !known || (reason == "") != (task.State == "done") || !matches || task.Attempts != 1 {
			t.Errorf("%s is %s after %d attempts: %s; want %q", task.URI, task.State, task.Attempts, task.Reason, reason)
		}
		delete(want, task.URI)
	}
	if len(want) > 0 {
		t.Errorf("no tasks: %v", want)
	}
	if n := redirects.Load(); n > 11 {
		t.Errorf("%d redirects were followed", n)
	}
	if n := robots.Load(); n == 0 || n > 32<<20 {
		t.Errorf("%d bytes of a robots.txt of 100 MB were taken", n)
	}
	// The worker continues, and nothing is left behind.
	must("", "job", "add", write(t, p.dir, "after.yaml", "name: after\nsetting: {delay: 0s}\n"))
	must(good+"/after\n", "job", "uris", "after")
	if got := settled("after", 1); got["done"] != 1 {
		t.Errorf("after it: %v", got)
	}
	if left, err := filepath.Glob(filepath.Join(p.dir, "data", "spill", "0", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if most := peak(t, p.addr); most > 512<<20 {
		t.Errorf("the program has taken %d MiB of memory", most>>20)
	} else {
		t.Logf("at most %d MiB of memory", most>>20)
	}
}

// hostile starts servers, by the reason that the program must give.
func (n *internet) hostile(api string, ca, stranger *certtest.Authority) map[string][]string {
	const head = "HTTP/1.1 200 OK\r\n"
	page := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "page")
	}
	secure := func(by *certtest.Authority, ends time.Duration, name string, version uint16) string {
		n.t.Helper()
		pair := by.Issue(n.t, name, ends, name)
		cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			n.t.Fatal(err)
		}
		c := &tls.Config{Certificates: []tls.Certificate{cert}}
		if version != 0 {
			c.MinVersion, c.MaxVersion = version, version
		}
		return n.handle(badHost, c, page) + "/page"
	}
	// shakes is a TLS server that misbehaves in the handshake.
	shakes := func(do func(net.Conn)) string {
		l := n.listen(badHost)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = io.ReadFull(conn, make([]byte, 5))
					do(conn)
				}()
			}
		}()
		return "https://" + l.Addr().String() + "/page"
	}
	leads := func(to string) string {
		return n.speak(once("HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
	}
	_, port, _ := net.SplitHostPort(api)
	text := strings.Repeat("page ", 1000)
	return map[string][]string{
		"": {secure(ca, time.Hour, badHost, 0)},
		"too_large: ": {
			n.speak(endless(head+"\r\n", text)), n.speak(endless(head+"Transfer-Encoding: chunked\r\n\r\n", "5\r\npage \r\n")),
			n.speak(once(head + "Content-Length: 9000000000\r\n\r\n")), n.speak(once(bomb(n.t))),
		},
		"(timeout|timeout_read): ": {
			n.speak(func(conn net.Conn) { // one byte per second
				_, err := io.WriteString(conn, head+"Content-Length: 1000\r\n\r\n")
				for ; err == nil; _, err = io.WriteString(conn, "x") {
					time.Sleep(time.Second)
				}
			}),
			n.speak(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }),
			n.speak(func(conn net.Conn) {
				_, _ = io.WriteString(conn, head+"Content-Ty")
				_, _ = io.Copy(io.Discard, conn)
			}),
		},
		"redirect_loop: ":    {leads("/page")},
		"incomplete: ":       {n.speak(once(head + "Content-Length: 100\r\n\r\nshort")), n.speak(once(head + "Transfer-Encoding: chunked\r\n\r\n5\r\npag"))},
		"bad_response: ":     {n.speak(once(head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\npage  ")), n.speak(once(head + "Content-Length: -1\r\n\r\n")), n.speak(once("SSH-2.0-OpenSSH_9.2\r\n\r\n")), n.speak(endless(head, "X-Header: "+text+"\r\n"))},
		"bad_encoding: ":     {n.speak(once(head + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\npages"))},
		"connection_lost: ":  {n.speak(once(""))},
		"refused_address: ":  {leads("http://" + api + "/api/v1/jobs"), leads("http://localhost:" + port + "/"), leads("http://0x7f.1:" + port + "/"), leads("http://169.254.169.254/latest/meta-data/"), leads("http://[::ffff:169.254.169.254]/"), leads("http://10.0.0.1/"), "http://" + api + "/", "http://93.184.215.1:" + port + "/"},
		"refused_port: ":     {leads("http://" + goodHost + ":25/")},
		"bad_redirect: ":     {leads("file:///etc/passwd")},
		"tls_expired: ":      {secure(ca, -time.Hour, badHost, 0)},
		"tls_hostname: ":     {secure(ca, time.Hour, "other.example", 0)},
		"tls_unknown_auth":   {secure(stranger, time.Hour, badHost, 0)},
		"tls: ":              {secure(ca, time.Hour, badHost, tls.VersionTLS10), shakes(once("HTTP/1.1 400 Bad Request\r\n\r\n"))},
		"robots_unreachable": {shakes(once("")), shakes(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })},
	}
}
