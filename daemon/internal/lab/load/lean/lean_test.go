package lean

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func dial(t *testing.T, addr string) *Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return New(conn)
}

func post(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// One connection receives answers of each form, one after the other.
func TestAnswersOfEachForm(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/length", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Sum", "12")
		fmt.Fprintf(w, "got %s", body)
	})
	mux.HandleFunc("/chunks", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		for i := range 50 {
			fmt.Fprintf(w, "%d%s\n", i, strings.Repeat("x", 1000))
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Sum", "34")
	})
	mux.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/last", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "bye")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c := dial(t, server.Listener.Addr().String())
	for _, want := range []struct {
		path   string
		status int
		body   int
		sum    string
		close  bool
	}{
		{"/length", 200, 9, "12", false}, {"/chunks", 200, 50*1001 + 10 + 80, "34", false}, {"/length", 200, 9, "12", false},
		{"/announced", 418, 0, "", false}, {"/nothing", 204, 0, "", false}, {"/last", 200, 3, "", true},
	} {
		a, err := c.Exchange(post(want.path, "hello"))
		if err != nil {
			t.Fatalf("%s: %v", want.path, err)
		}
		if a.Status != want.status || len(a.Body) != want.body || string(a.Get("x-sum")) != want.sum || a.Close != want.close {
			t.Errorf("%s: got %d, %d bytes, sum %q, close %v", want.path, a.Status, len(a.Body), a.Get("x-sum"), a.Close)
		}
		if a.Size < int64(len(a.Body)+len(a.Header)) {
			t.Errorf("%s: %d bytes in all, with a body of %d", want.path, a.Size, len(a.Body))
		}
	}
	if _, err := c.Exchange(post("/length", "")); err == nil {
		t.Error("an answer on a connection that the server closed")
	}
}

// answering serves one connection and answers any request with text.
func answering(t *testing.T, text string) *Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		l.Close() // not earlier: it would reset a connection that waits to be accepted
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, text)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return dial(t, l.Addr().String())
}

func TestAnswersThatAreCutOrNone(t *testing.T) {
	for text, want := range map[string]error{
		"":                        io.EOF,
		"HTTP/1.1 200 OK":         io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nA: b": io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc":            io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n":               io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n": io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc":            ErrNotHTTP,
		"SSH-2.0-OpenSSH_9.9\r\n":                                    ErrNotHTTP,
		"HTTP/1.1 x00 OK\r\n\r\n":                                    ErrNotHTTP,
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("a", maxHeader+1):     ErrNotHTTP,
	} {
		if _, err := answering(t, text).Exchange(post("/", "")); !errors.Is(err, want) {
			t.Errorf("%.60q: got %v, want %v", text, err, want)
		}
	}
	a, err := answering(t, "HTTP/1.0 200 OK\r\n\r\nall of it").Exchange(post("/", ""))
	if err != nil || string(a.Body) != "all of it" || !a.Close {
		t.Errorf("a body that ends with the connection: %+v, %v", a, err)
	}
}

// A server may refuse a large body before it has read it, and close the connection.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = http.ReadRequest(bufio.NewReaderSize(there, 16))
		_ = there.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(there, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
		there.Close()
	}()
	c := New(halfClosed{here})
	a, err := c.Exchange(post("/", strings.Repeat("x", 1<<20)))
	if err != nil || a.Status != 413 || string(a.Body) != "big" || !a.Close {
		t.Errorf("got %+v, %v", a, err)
	}
	<-done
}

// halfClosed fails writes past the header, as a socket does when its other side is closed.
type halfClosed struct{ net.Conn }

func (h halfClosed) Write(p []byte) (int, error) {
	n, err := h.Conn.Write(p[:strings.Index(string(p), "\r\n\r\n")+4])
	if err == nil {
		err = io.ErrClosedPipe
	}
	return n, err
}
