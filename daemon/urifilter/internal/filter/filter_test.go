package filter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

func TestFilterPrintsNewItemsInOrder(t *testing.T) {
	s := clienttest.NewServer(t)
	in := "\ufeffb\r\n\r\na\nb\n 新 \n\nc"
	code, out, errOut := cli(t, s, in, "filter", "--type", "ip")
	if code != 0 || out != "b\na\n 新 \nc\n" {
		t.Fatalf("got %d, %q, %q", code, out, errOut)
	}
	if !strings.HasPrefix(errOut, "5 read, 4 new, 1 duplicates in 0.") || !strings.HasSuffix(errOut, " items/s)\n") {
		t.Errorf("summary: got %q", errOut)
	}
	t.Setenv("URIFILTER_TYPE", "ip")
	file := filepath.Join(t.TempDir(), "in")
	write(t, file, "c\nd\n")
	if code, out, errOut := cli(t, s, "", "filter", "--quiet", file); code != 0 || out != "d\n" || errOut != "" {
		t.Errorf("file: got %d, %q, %q", code, out, errOut)
	}
	if code, out, _ := cli(t, s, "e", "filter", "-"); code != 0 || out != "e\n" {
		t.Errorf("dash: got %d, %q", code, out)
	}
	if code, out, errOut := cli(t, s, "", "filter"); code != 0 || out != "" || !strings.HasPrefix(errOut, "0 read, ") {
		t.Errorf("nothing: got %d, %q, %q", code, out, errOut)
	}
	if code, out, _ := cli(t, s, "1\n\"e\"\n{\"k\":\"é\"}\n1\n", "filter", "--input-format", "ndjson"); code != 0 || out != "1\n{\"k\":\"é\"}\n" {
		t.Errorf("json: got %d, %q", code, out)
	}
}

func TestCheckPrintsVerdicts(t *testing.T) {
	s := clienttest.NewServer(t)
	cli(t, s, "b\r\nd\n", "filter")
	in := "\ufeffa\r\n\nb\n  \nd\na\r"
	for range 2 {
		code, out, errOut := cli(t, s, in, "check")
		if code != 0 || out != "a\n  \na\r\n" || !strings.HasPrefix(errOut, "5 read, 3 new, 2 seen in ") {
			t.Fatalf("got %d, %q, %q", code, out, errOut)
		}
	}
	if code, out, _ := cli(t, s, in, "check", "--all"); code != 0 || out != "new\ta\nseen\tb\nnew\t  \nseen\td\nnew\ta\r\n" {
		t.Errorf("all: got %d, %q", code, out)
	}
	if code, out, _ := cli(t, s, " \"b\" \n\n1\r\n", "check", "--all", "-f", "ndjson"); code != 0 || out != "seen\t\"b\"\nnew\t1\n" {
		t.Errorf("json: got %d, %q", code, out)
	}
}

// lineSource gives 2n lines, of which n are different, first seen in their order.
func lineSource(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 100_000)
		for i := range n {
			fmt.Fprintf(b, "https://example.com/%d\r\nhttps://example.com/%d\n", i, i/2)
		}
		w.CloseWithError(b.Flush())
	}()
	return r
}

func TestFilterOfManyLines(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	const n = 60_000
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"filter"}, lineSource(n), &out, &errOut); code != 0 {
		t.Fatalf("got %d, %s", code, &errOut)
	}
	var want bytes.Buffer
	for i := range n {
		fmt.Fprintf(&want, "https://example.com/%d\n", i)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes of output, want %d: not the same, or not in order", out.Len(), want.Len())
	}
	if !strings.HasPrefix(errOut.String(), "120,000 read, 60,000 new, 60,000 duplicates in ") {
		t.Errorf("summary: %q", &errOut)
	}
	if requests := len(s.Requests()); requests < 12 {
		t.Errorf("%d requests for 120,000 lines: a batch is more than 10,000", requests)
	}
}

// Typed input is answered line by line: a batch is what has come so far.
func TestFilterAnswersALineAtOnce(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	in, typist := io.Pipe()
	reader, out := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- run(t.Context(), []string{"filter", "-q"}, in, out, io.Discard) }()
	buf := make([]byte, 100)
	for _, line := range []string{"a\n", "b\n", "c\n"} {
		io.WriteString(typist, line)
		n, err := reader.Read(buf)
		if err != nil || string(buf[:n]) != line {
			t.Fatalf("got %q, %v; want %q", buf[:n], err, line)
		}
	}
	typist.Close()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

// failAt makes the nth request of the server fail in the way of f.
func failAt(s *clienttest.Server, nth int, f func(http.ResponseWriter, *http.Request)) {
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if len(s.Requests()) != nth {
			return false
		}
		f(w, r)
		return true
	})
}

func TestFilterSaysWhatIsCertainWhenItFails(t *testing.T) {
	var in strings.Builder
	for i := range 25_000 {
		fmt.Fprintf(&in, "item-%d\n", i)
	}
	cut := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "item-10000\n")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	refuse := func(status int, code string, more map[string]any) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			clienttest.Problem(w, status, code, "so it is", more)
		}
	}
	for name, test := range map[string]struct {
		nth       int
		fail      func(http.ResponseWriter, *http.Request)
		wantLines int
		want      []string
		never     string
	}{
		"answer cut in the middle": {2, cut, 10_000, []string{"unexpected EOF", "lines before 10001 are done (tail -n +10001 gives the rest)", "lines 10001 to 20000 may be remembered though they were not all printed"}, "hint"},
		"answer cut at once":       {1, cut, 0, []string{"no line is done; lines 1 to 10000 may be remembered"}, "nothing"},
		"refused":                  {2, refuse(413, "item_too_large", map[string]any{"index": 4}), 10_000, []string{"urifilter: line 10,005: POST", "413 item_too_large: so it is", "lines before 10001 are done", "nothing from line 10001 on is remembered"}, "may be"},
		"refused at once":          {1, refuse(507, "filter_full", nil), 0, []string{"507 filter_full"}, "line"},
		"store failed":             {3, refuse(503, "store_failed", nil), 20_000, []string{"lines 20001 to 25000 may be remembered", "hint: the daemon's log"}, "nothing from"},
		"no totals":                {1, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }, 0, []string{"the answer is cut"}, "nothing from"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clienttest.NewServer(t)
			failAt(s, test.nth, test.fail)
			code, out, errOut := cli(t, s, in.String(), "filter")
			if code != 1 || strings.Count(out, "\n") != test.wantLines {
				t.Errorf("got code %d and %d lines, want 1 and %d", code, strings.Count(out, "\n"), test.wantLines)
			}
			for _, want := range test.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("%q is not in: %s", want, errOut)
				}
			}
			if strings.Contains(errOut, test.never) || strings.Contains(errOut, " read, ") {
				t.Errorf("%q, or a summary, is in: %s", test.never, errOut)
			}
			if !strings.HasPrefix(errOut, "urifilter: ") {
				t.Errorf("no prefix: %s", errOut)
			}
		})
	}
}

func TestCheckFailureSaysNothingOfRemembering(t *testing.T) {
	s := clienttest.NewServer(t)
	failAt(s, 2, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	code, out, errOut := cli(t, s, strings.Repeat("a\n", 15_000), "check", "--patience", "0")
	if code != 1 || strings.Count(out, "\n") != 10_000 || !strings.Contains(errOut, "lines before 10001 are done") || strings.Contains(errOut, "remembered") {
		t.Errorf("got %d, %d lines, %q", code, strings.Count(out, "\n"), errOut)
	}
}

func TestCheckRefusesAnAnswerOfTheWrongLength(t *testing.T) {
	for _, words := range []string{"new\n", "new\nnew\nnew\n", "new\nnew"} {
		items := [][]byte{[]byte("a"), []byte("b")}
		if v, err := join(items, []byte(words), map[string]string{"new": "new"}, false); err == nil {
			t.Errorf("%q for two items: taken as %q", words, v.text)
		}
	}
}

type failingWriter struct {
	after int
	err   error
	got   bytes.Buffer
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, f.err
	}
	return f.got.Write(p)
}

func TestOutputThatFails(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	var in strings.Builder
	for i := range 25_000 {
		fmt.Fprintf(&in, "item-%d\n", i)
	}
	var errOut bytes.Buffer
	out := &failingWriter{after: 1, err: &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}}
	if code := run(t.Context(), []string{"filter"}, strings.NewReader(in.String()), out, &errOut); code != 1 {
		t.Errorf("closed output: code %d, %s", code, &errOut)
	}
	if want := "urifilter: output: closed by its reader\nlines before 20001 are remembered, whether their new items were read or not (tail -n +20001 gives the rest)\nhint: `urifilter check` "; !strings.HasPrefix(errOut.String(), want) {
		t.Errorf("closed output: got %q", &errOut)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("%d requests, want none after the output was closed", n)
	}
	// Nothing is lost if nothing is remembered.
	errOut.Reset()
	out = &failingWriter{after: 1, err: syscall.EPIPE}
	if code := run(t.Context(), []string{"check", "-t", "ip"}, strings.NewReader(in.String()), out, &errOut); code != 0 || !strings.HasSuffix(errOut.String(), "; then the output was closed\n") {
		t.Errorf("closed output of check: code %d, %q", code, &errOut)
	}
	errOut.Reset()
	out = &failingWriter{err: syscall.ENOSPC}
	if code := run(t.Context(), []string{"filter"}, strings.NewReader("x\n"), out, &errOut); code != 1 || !strings.Contains(errOut.String(), "output: no space left on device\nno line is done; line 1 may be remembered") {
		t.Errorf("full disk: code %d, %s", code, &errOut)
	}
}

func TestInputThatFails(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	var out, errOut bytes.Buffer
	in := io.MultiReader(strings.NewReader("a\nb\nhalf a line"), iotest.ErrReader(errors.New("boom")))
	if code := run(t.Context(), []string{"filter"}, in, &out, &errOut); code != 1 || out.String() != "a\nb\n" || !strings.HasPrefix(errOut.String(), "urifilter: input: boom\nlines before 3 are done") {
		t.Errorf("got %d, %q, %q", code, &out, &errOut)
	}
	if _, has := s.Items("uri", "half a line"); has {
		t.Error("half a line was sent")
	}
}

// An interrupt lets the batch under way end, so that it is known what is remembered.
func TestInterruptEndsTheBatchUnderWay(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	ctx, interrupt := context.WithCancelCause(t.Context())
	s.Intercept(func(http.ResponseWriter, *http.Request) bool {
		interrupt(errors.New("interrupt received"))
		time.Sleep(50 * time.Millisecond)
		return false
	})
	in, typist := io.Pipe()
	defer typist.Close()
	go io.WriteString(typist, "a\nb\n")
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"filter"}, in, &out, &errOut); code != 1 || out.String() != "a\nb\n" || errOut.String() != "urifilter: interrupt received\nlines before 3 are done (tail -n +3 gives the rest)\n" {
		t.Errorf("got %d, %q, %q", code, &out, &errOut)
	}
}

func TestTimeoutOfABatch(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	})
	code, _, errOut := cli(t, s, "a\n", "filter", "--timeout", "2s")
	if code != 1 || !strings.Contains(errOut, "no whole answer within 2s") || !strings.Contains(errOut, "line 1 may be remembered") {
		t.Errorf("got %d, %q", code, errOut)
	}
}

// A busy daemon has remembered nothing: the batch is retried for a while.
func TestBusyDaemonIsAskedAgain(t *testing.T) {
	s := clienttest.NewServer(t)
	busy := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		clienttest.Problem(w, 503, "overloaded", "later", nil)
	}
	failAt(s, 2, busy)
	code, out, errOut := cli(t, s, strings.Repeat("a\n", batchLines)+"b\n", "filter")
	if code != 0 || out != "a\nb\n" || !strings.Contains(errOut, "10,001 read, 2 new, ") {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool { busy(w, r); return true })
	code, _, errOut = cli(t, s, "c\n", "filter", "--patience", "250ms")
	if code != 1 || errOut != "urifilter: POST "+s.URL+"/api/v1/filter?filter_typeid=uri: 503 overloaded: later\n" {
		t.Errorf("always busy: got %d, %q", code, errOut)
	}
	if n := len(s.Requests()); n < 4 || n > 6 {
		t.Errorf("%d requests, want some again after a pause", n)
	}
}

// A daemon whose limit of items is lower than a batch answers it in parts. A failure after the first is
// not one of the whole: sent again, the items of the first part would be called duplicates.
func TestBatchThatBreaksOffInTheMiddleIsNotRepeated(t *testing.T) {
	s := clienttest.NewServer(t)
	failAt(s, 1, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "Urifilter-Error")
		io.WriteString(w, "a\n")
		w.Header().Set("Urifilter-Error", `{"status":503,"error_code":"store_unavailable"}`)
	})
	code, out, errOut := cli(t, s, "a\nb\n", "filter")
	if code != 1 || out != "" || len(s.Requests()) != 1 || !strings.Contains(errOut, "lines 1 to 2 may be remembered though they were not all printed") {
		t.Errorf("got %d, %q, %q after %d calls", code, out, errOut, len(s.Requests()))
	}
}
