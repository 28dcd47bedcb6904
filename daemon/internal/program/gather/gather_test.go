package gather_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/program/gather"
	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
)

// taken is a connection that keeps written data, one slice per call.
type taken struct {
	net.Conn
	calls [][]byte
	room  int // bytes that are accepted before an error
}

var errFull = errors.New("no more")

func (c *taken) Write(p []byte) (int, error) {
	if c.room < len(p) {
		return c.room, errFull
	}
	c.room -= len(p)
	c.calls = append(c.calls, bytes.Clone(p))
	return len(p), nil
}

type one struct{ net.Conn }

func (o *one) Accept() (net.Conn, error) { return o.Conn, nil }
func (o *one) Close() error              { return nil }
func (o *one) Addr() net.Addr            { return nil }

// over makes a gathering connection over c.
func over(t *testing.T, c net.Conn) (net.Conn, *gather.Answer) {
	t.Helper()
	made, err := gather.Listener(&one{c}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	a := gather.Of(wrap.Context(t.Context(), made))
	if a == nil {
		t.Fatal("no answer is found on the connection")
	}
	return made, a
}

// In any sequence of write, hold and release, all data is sent in order, and never more than one
// small write is held.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		under := &taken{room: 1 << 30}
		c, a := over(t, under)
		var want []byte
		for range 20 {
			switch random.IntN(4) {
			case 0:
				a.Hold()
			case 1:
				if err := a.Release(); err != nil {
					t.Fatal(err)
				}
				if got := bytes.Join(under.calls, nil); !bytes.Equal(got, want) {
					t.Fatalf("after Release %d bytes are written, want %d", len(got), len(want))
				}
			default:
				p := bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(6<<10))
				n, err := c.Write(p)
				if n != len(p) || err != nil {
					t.Fatalf("Write of %d bytes: %d, %v", len(p), n, err)
				}
				want = append(want, p...)
			}
			if got := len(bytes.Join(under.calls, nil)); len(want)-got > 4<<10 {
				t.Fatalf("%d bytes are held", len(want)-got)
			}
		}
		if err := a.Release(); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Join(under.calls, nil); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
	}
}

func TestFailure(t *testing.T) {
	for _, test := range []struct{ room, n int }{{0, 0}, {10, 0}, {100, 0}, {150, 50}} {
		c, a := over(t, &taken{room: test.room})
		a.Hold()
		if n, err := c.Write(make([]byte, 100)); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := c.Write(make([]byte, 200)); n != test.n || !errors.Is(err, errFull) {
			t.Errorf("room for %d: %d bytes, %v; want %d of the second write", test.room, n, err, test.n)
		}
	}
	c, a := over(t, &taken{})
	a.Hold()
	if _, err := c.Write([]byte("held")); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(); !errors.Is(err, errFull) {
		t.Errorf("Release of what cannot be written: %v", err)
	}
}

func TestNothingToGather(t *testing.T) {
	a := gather.Of(wrap.Context(t.Context(), &taken{}))
	if a != nil {
		t.Error("an answer on a connection that is not gathered")
	}
	a.Hold()
	if err := a.Release(); err != nil {
		t.Error(err)
	}
}

// serve serves answers of a given length, gathered if the path is /gathered.
func serve(t *testing.T, length int) (url string, last func() net.Conn) {
	t.Helper()
	conns := make(chan net.Conn, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a *gather.Answer
		if r.URL.Path == "/gathered" {
			if a = gather.Of(r.Context()); a == nil {
				t.Error("no answer in the context")
			}
		}
		a.Hold()
		if _, err := io.WriteString(w, strings.Repeat("x", length)); err != nil {
			t.Error(err)
		}
		if err := a.Release(); err != nil {
			t.Error(err)
		}
	}))
	inner := s.Listener
	s.Listener = gather.Listener(tell{inner, conns})
	s.Config.ConnContext = wrap.Context
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, func() net.Conn { return <-conns }
}

type tell struct {
	net.Listener
	to chan net.Conn
}

func (l tell) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.to <- c
	}
	return c, err
}

// Answers over real connections arrive complete, whatever their length, several on one.
func TestAnswersComeWhole(t *testing.T) {
	for _, length := range []int{0, 1, 2048, 2049, 4000, 4096, 8192, 8193, 40_000, 1 << 20} {
		url, _ := serve(t, length)
		for _, call := range []struct{ method, path string }{{"GET", "/gathered"}, {"HEAD", "/gathered"}, {"GET", "/gathered"}, {"GET", "/"}} {
			req, err := http.NewRequestWithContext(context.Background(), call.method, url+call.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatalf("%s %s of %d bytes: %v", call.method, call.path, length, err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			want := length
			if call.method == "HEAD" {
				want = 0
			}
			if err != nil || len(body) != want {
				t.Errorf("%s %s of %d bytes: %d, %v", call.method, call.path, length, len(body), err)
			}
		}
	}
}
