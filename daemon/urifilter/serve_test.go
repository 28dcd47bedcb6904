package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func (p *process) mustPost(path, body string, wantStatus int) string {
	p.t.Helper()
	status, answer, err := p.post(context.Background(), path, body)
	if err != nil || status != wantStatus {
		p.t.Fatalf("POST %s %.100s: status %d, %v, want %d: %s", path, body, status, err, wantStatus, answer)
	}
	return answer
}

func list(t testing.TB, items ...any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"filter_typeid": 1, "uri_list": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheFirstCallsOfANewcomer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil)
	const call = `{"filter_typeid":1,"uri_list":["https://www.baidu.com/","http://www.2cto.com","https://www.baidu.com/"]}`
	if got, want := p.mustPost("/api/v1/filter", call, 200), `{"uri_list":["https://www.baidu.com/","http://www.2cto.com"],"total":3,"duplicates":1}`; strings.TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, path := range []string{"/api/v1/filter", "/cr-clawr/uri_filter/api/uri_filter"} {
		if got, want := p.mustPost(path, call, 200), `{"uri_list":[],"total":3,"duplicates":3}`; strings.TrimSpace(got) != want {
			t.Errorf("%s again: got %s, want %s", path, got, want)
		}
	}

	items := []any{"苹果", "127.0.0.1", "::1", 1, "1", 1.5, true, map[string]any{"a": 1, "b": []any{nil, "x"}}, []any{1, 2},
		strings.Repeat("长", 3400), "two\nlines", "two\r\nlines", "tab\there", `quote"and\back`}
	body := list(t, items...)
	var got client.FilterResult[any]
	if err := json.Unmarshal([]byte(p.mustPost("/api/v1/filter", body, 200)), &got); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(items)
	have, _ := json.Marshal(got.URIList)
	if string(have) != string(want) {
		t.Errorf("new items: got %s, want %s", have, want)
	}

	// A second start continues: all of it is known, and what looks alike is not.
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, p.log)
	}
	p = start(t, dir, nil)
	if got := p.mustPost("/api/v1/filter", body, 200); !strings.Contains(got, `"uri_list":[],`) {
		t.Errorf("after a restart some are new: %s", got)
	}
	for body, want := range map[string]string{
		`{"filter_typeid":"uri","uri_list":[1.0, 1e0, "\u82f9\u679c", {"b":[null,"x"],"a":1.0}]}`: `{"uri_list":[],"total":4,"duplicates":4}`,
		`{"uri_list":["true","[1,2]",2], "filter_typeid":1}`:                                      `{"uri_list":["true","[1,2]",2],"total":3,"duplicates":0}`,
	} {
		if got := p.mustPost("/api/v1/filter", body, 200); strings.TrimSpace(got) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// SIGTERM lets requests under way end, and refuses none that it has taken.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil)
	// A request whose body comes slowly is under way when the signal comes.
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := list(t, "slow")
	fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n" // the daemon waits for the body
	if said := make([]byte, len(goOn)); true {
		if _, err := io.ReadFull(conn, said); err != nil || string(said) != goOn {
			t.Fatalf("%q, %v", said, err)
		}
	}
	if _, err := fmt.Fprint(conn, body[:10]); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		other, err := net.Dial("tcp", p.addr)
		if err != nil {
			break // it takes no more connections
		}
		_ = other.Close()
		if time.Now().After(end) {
			t.Fatalf("connections are taken a minute after SIGTERM\n%s", p.log)
		}
	}
	if _, err := fmt.Fprint(conn, body[10:]); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), `["slow"]`) {
		t.Fatalf("the request under way: %v, %s\n%s", err, answer[:n], p.log)
	}
	_ = conn.Close()
	<-p.done
	if p.err != nil {
		t.Errorf("exit: %v\n%s", p.err, p.log)
	}
	p = start(t, dir, nil)
	if got := p.mustPost("/api/v1/filter", body, 200); !strings.Contains(got, `"uri_list":[]`) {
		t.Errorf("forgotten: %s", got)
	}
}

// A stop that comes while the filters are loaded is no failure either.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, p.log)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errOut strings.Builder
	if code := run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, nil, &out, &errOut); code != command.ExitOK {
		t.Errorf("exit code %d: %s%s", code, out.String(), errOut.String())
	}
}

// mustRefuse runs serve with args, wants it to end with an error, and returns its message.
func mustRefuse(t *testing.T, env []string, args ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"serve"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("serve %v: does not refuse to start: %v\n%s", args, err, out)
	}
	if strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
		t.Errorf("serve %v panics:\n%s", args, out)
	}
	return string(out)
}

func mustContain(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil)
	p.mustPost("/api/v1/filter", list(t, "a", "b"), 200)

	t.Run("directory in use", func(t *testing.T) {
		mustContain(t, mustRefuse(t, nil, "--listen", "127.0.0.1:0", "--data-dir", dir), dir, fmt.Sprint("process ", p.cmd.Process.Pid), "hint:")
	})
	t.Run("address in use", func(t *testing.T) {
		mustContain(t, mustRefuse(t, nil, "--listen", p.addr, "--data-dir", t.TempDir()), p.addr, "hint:")
	})
	t.Run("open address without tokens", func(t *testing.T) {
		mustContain(t, mustRefuse(t, nil, "--listen", "0.0.0.0:0", "--data-dir", t.TempDir()), "listen", "tokens_file")
	})
	t.Run("unknown setting", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "u.yaml")
		if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\ndurabilty: always\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustContain(t, mustRefuse(t, nil, "--config", file), file, "2", "durabilty")
	})
	t.Run("malformed variable", func(t *testing.T) {
		mustContain(t, mustRefuse(t, []string{"URIFILTER_LIMITS_ITEMS=many"}, "--data-dir", t.TempDir()), "URIFILTER_LIMITS_ITEMS", "many")
	})
	t.Run("directory that cannot be", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		mustContain(t, mustRefuse(t, nil, "--listen", "127.0.0.1:0", "--data-dir", file), file)
	})
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	t.Run("corrupt bit-map", func(t *testing.T) {
		bitmap := filepath.Join(dir, "filters", "1-uri", "bitmap")
		data, err := os.ReadFile(bitmap)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(bitmap, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, dir, nil)
		p.mustPost("/api/v1/filter", `{"filter_typeid":"uri","uri_list":["a"]}`, 503)
		p.mustPost("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["a"]}`, 200)
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		mustContain(t, p.log.String(), "QUARANTINE", bitmap, "stripe", "hint:", "verify")
		path, _ := binary()
		out, err := exec.Command(path, "verify", "--data-dir", dir).CombinedOutput()
		if err == nil {
			t.Error("verify finds nothing")
		}
		mustContain(t, string(out), "uri: DAMAGED", bitmap, "ip: sound")
	})
}

// When its files fail under it the daemon says so and ends with an error; what was
// acknowledged is there at the next start.
func TestStoreFailureEndsTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, nil)
	p.mustPost("/api/v1/filter", list(t, "a", "b"), 200)
	folder := filepath.Join(dir, "filters", "1-uri")
	moved := folder + ".moved"
	if err := os.Rename(folder, moved); err != nil { // the next segment cannot be made
		t.Fatal(err)
	}
	var once sync.Once
	var failed atomic.Int64
	c := &crasher{}
	for i := 0; i < 200; i++ {
		r := [2]int{c.next, c.next + 5000}
		c.next = r[1]
		status, answer, err := p.post(context.Background(), "/api/v1/filter", c.body(r))
		if err != nil {
			break
		}
		if status == http.StatusServiceUnavailable {
			once.Do(func() { mustContain(t, answer, "store_failed") })
			failed.Add(1)
			if status, _, err := p.get("/readyz"); err == nil && status != http.StatusServiceUnavailable {
				t.Errorf("readyz: %d, want 503", status)
			}
			break
		}
		c.acked = append(c.acked, r)
	}
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the process does not end\n%s", p.log)
	}
	if p.err == nil || failed.Load() == 0 {
		t.Errorf("exit %v, %d answers of 503\n%s", p.err, failed.Load(), p.log)
	}
	if err := os.Rename(moved, folder); err != nil {
		t.Fatal(err)
	}
	p = start(t, dir, nil)
	if err := c.mustRemember(p, c.acked); err != nil {
		t.Error(err)
	}
}
