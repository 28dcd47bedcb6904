package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
)

// numbers returns a reader of the lines 0 to n-1, each twice in a row.
func numbers(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriter(w)
		for i := range n {
			fmt.Fprintf(b, "https://example.com/a/rather/long/path/that/takes/space/%09d\nhttps://example.com/a/rather/long/path/that/takes/space/%09d\r\n", i, i)
		}
		w.CloseWithError(b.Flush())
	}()
	return r
}

func TestFilterLinesStreamsInConstantMemory(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	// An echo plays the daemon's part: all memory that is held is the client's.
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Trailer", "Urifilter-Total, Urifilter-Duplicates")
		n, _ := io.Copy(w, r.Body)
		w.Header().Set("Urifilter-Total", fmt.Sprint(n/67))
		w.Header().Set("Urifilter-Duplicates", "0")
		return true
	})
	const lines = 3_000_000 // 200 MB
	line := []byte(strings.Repeat("x", 66) + "\n")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC() // removes what earlier tests left, which may be much
	var most, before runtime.MemStats
	runtime.ReadMemStats(&before)
	sent := 0
	r := readerFunc(func(p []byte) (int, error) {
		n := 0
		for ; sent < lines && n+len(line) <= len(p); sent++ {
			n += copy(p[n:], line)
		}
		if sent%500_000 < 100 {
			runtime.ReadMemStats(&most)
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	})
	total, fresh, err := c.FilterLines(t.Context(), "uri", r, io.Discard)
	if err != nil || total != lines || fresh != lines {
		t.Fatalf("got %d, %d, %v; want %d lines", total, fresh, err, lines)
	}
	if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("heap grew by %d MiB for a stream of 200 MB", grown>>20)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFilterLinesOfManyBlocks(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	const n = 100_000 // 13 MB in 13 blocks
	var out bytes.Buffer
	total, fresh, err := c.FilterLines(t.Context(), "uri", numbers(n), &out)
	if err != nil || total != 2*n || fresh != n {
		t.Fatalf("got %d, %d, %v; want %d, %d", total, fresh, err, 2*n, n)
	}
	for i := range n {
		line, err := out.ReadString('\n')
		if want := fmt.Sprintf("https://example.com/a/rather/long/path/that/takes/space/%09d\n", i); line != want {
			t.Fatalf("line %d: got %q, %v; want %q", i, line, err, want)
		}
	}
}

func TestFilterLinesFails(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	boom := errors.New("boom")
	var out bytes.Buffer

	_, _, err := c.FilterLines(t.Context(), "uri", io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(boom)), &out)
	if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "input: ") {
		t.Errorf("source fails: got %v, want input: boom", err)
	}
	_, _, err = c.FilterLines(t.Context(), "uri", strings.NewReader("b\n"), writerFunc(func([]byte) (int, error) { return 0, boom }))
	if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "output: ") {
		t.Errorf("writer fails: got %v, want output: boom", err)
	}
	// The source fails in the middle of a stream that is being answered.
	_, _, err = c.FilterLines(t.Context(), "uri", io.MultiReader(io.LimitReader(numbers(50_000), 3<<20), iotest.ErrReader(boom)), &out)
	if !errors.Is(err, boom) {
		t.Errorf("source fails in the middle: got %v, want boom", err)
	}
	_, _, err = c.FilterLines(t.Context(), "nope", numbers(1000), &out)
	if err == nil || !strings.Contains(err.Error(), "404 unknown_filter") {
		t.Errorf("unknown filter: got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	blocked, w := io.Pipe()
	defer w.Close()
	if _, _, err = c.FilterLines(ctx, "uri", blocked, &out); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("blocked source: got %v, want the deadline", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A stream that is cut at any place is never taken for whole.
func TestCutStreamIsAnError(t *testing.T) {
	s := clienttest.NewServer(t)
	c := newClient(t, s.URL)
	for name, answer := range map[string]func(http.ResponseWriter){
		"cut after a line": func(w http.ResponseWriter) {
			io.WriteString(w, "a\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"no totals": func(w http.ResponseWriter) { io.WriteString(w, "a\n") },
		"short": func(w http.ResponseWriter) {
			w.Header().Set("Urifilter-Total", "2")
			w.Header().Set("Urifilter-Duplicates", "0")
			io.WriteString(w, "a\n")
		},
		"half a line": func(w http.ResponseWriter) {
			w.Header().Set("Urifilter-Total", "2")
			w.Header().Set("Urifilter-Duplicates", "0")
			io.WriteString(w, "a\nb")
		},
		"bad totals": func(w http.ResponseWriter) {
			w.Header().Set("Urifilter-Total", "-1")
			w.Header().Set("Urifilter-Duplicates", "0")
		},
	} {
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			io.Copy(io.Discard, r.Body)
			answer(w)
			return true
		})
		if _, _, err := c.FilterLines(t.Context(), "uri", strings.NewReader("a\nb\n"), io.Discard); !client.InDoubt(err) {
			t.Errorf("%s: %v, in doubt %t", name, err, client.InDoubt(err))
		}
		if _, err := c.CheckLines(t.Context(), "uri", strings.NewReader("a\nb\n"), io.Discard); err == nil || client.InDoubt(err) {
			t.Errorf("%s: check: %v, in doubt %t", name, err, client.InDoubt(err))
		}
	}
}
