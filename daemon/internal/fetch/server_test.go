package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// raw is a server that sends on each connection whatever a test wants.
type raw struct {
	t        testing.TB
	listener net.Listener
	serving  sync.WaitGroup
}

// serve starts a raw server. speak is called for each connection once a request has arrived, and
// the connection is closed when it returns. The test ends when the clients have disconnected.
func serve(t testing.TB, with *tls.Config, speak func(conn net.Conn, request string)) *raw {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if with != nil {
		listener = tls.NewListener(listener, with)
	}
	s := &raw{t: t, listener: listener}
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() {
				defer conn.Close() //nolint:errcheck // the client may have closed it
				head, err := readHead(conn)
				if err == nil {
					speak(conn, head)
				}
			})
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		s.serving.Wait()
	})
	return s
}

func readHead(conn io.Reader) (string, error) {
	var head bytes.Buffer
	r := bufio.NewReaderSize(conn, 1)
	for !bytes.HasSuffix(head.Bytes(), []byte("\r\n\r\n")) {
		b, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		head.WriteByte(b)
	}
	return head.String(), nil
}

func (s *raw) uri() string { return "http://" + s.listener.Addr().String() + "/" }

// say writes text; if endless, again and again until the client closes the connection.
func say(conn net.Conn, text string, endless bool) {
	if endless { // several at once, because the reader is tested
		text = strings.Repeat(text, 1+4096/len(text))
	}
	for {
		if _, err := io.WriteString(conn, text); err != nil || !endless {
			return
		}
	}
}

// hangUp waits until the client closes the connection.
func hangUp(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// fetcher makes a Fetcher that may call this machine. It must leave nothing when the test
// ends: no memory, files or goroutines.
func fetcher(t testing.TB, o Options) *Fetcher {
	t.Helper()
	o.SpillDir = t.TempDir()
	if o.Guard == nil {
		o.Guard = guard.New(guard.Options{AllowPrivate: true})
	}
	f := New(o)
	t.Cleanup(func() {
		f.Close()
		if left, err := os.ReadDir(o.SpillDir); err != nil || len(left) > 0 || f.Held() != 0 {
			t.Errorf("left: files %v (%v), %d bytes of memory", left, err, f.Held())
		}
		noGoroutines(t)
	})
	return f
}

// noGoroutines waits until no client goroutine is left.
func noGoroutines(t testing.TB) {
	stack := make([]byte, 4<<20)
	for ends := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text := string(stack[:runtime.Stack(stack, true)])
		if !strings.Contains(text, "http.(*Transport)") && !strings.Contains(text, "http.(*persistConn)") && !strings.Contains(text, "http2.(*ClientConn)") &&
			!strings.Contains(text, "fetch.(*route)") {
			return
		}
		if time.Now().After(ends) {
			t.Errorf("goroutines are left: %s", text)
			return
		}
	}
}

// get fetches, reads the body and closes it. Limits that the request does not name are wide: a
// machine with other work must not reach them.
func get(t testing.TB, f *Fetcher, r Request) (*Response, string, *Error) {
	t.Helper()
	r.Connect, r.Read = cmp.Or(r.Connect, time.Minute), cmp.Or(r.Read, 2*time.Minute)
	answer, err := f.Fetch(t.Context(), r)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || answer != nil {
			t.Fatalf("%s: got %v and an error of type %T", r.URI, answer, err)
		}
		return nil, "", e
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer, string(text), nil
}

func ok(text string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(text)) + "\r\n\r\n" + text
}

func header(values ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(values); i += 2 {
		h.Add(values[i], values[i+1])
	}
	return h
}
