package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

func itoa(n int) string { return strconv.Itoa(n) }

func bomb(t testing.TB, size int64) string {
	t.Helper()
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if _, err := io.CopyN(w, zeroes{}, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Whatever a server does is bounded and has a named reason, and nothing is left behind.
func TestHostile(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	text := func(text string) func(net.Conn, string) {
		return func(conn net.Conn, _ string) { say(conn, text, false) }
	}
	then := func(text string, next func(net.Conn)) func(net.Conn, string) {
		return func(conn net.Conn, _ string) { say(conn, text, false); next(conn) }
	}
	again := func(text string) func(net.Conn) { return func(conn net.Conn) { say(conn, text, true) } }
	reset := func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }
	page := strings.Repeat("page ", 1000)
	large, small := bomb(t, 17<<20), bomb(t, 1<<20)
	for name, test := range map[string]struct {
		speak func(net.Conn, string)
		r     Request
		want  Reason // "" for an answer
	}{
		"endless body":                  {then(head+"\r\n", again(page)), Request{BodyLimit: 1 << 20}, TooLarge},
		"endless chunks":                {then(head+"Transfer-Encoding: chunked\r\n\r\n", again("5\r\npage \r\n")), Request{BodyLimit: 1 << 20}, TooLarge},
		"endless body of tiny frames":   {then(head+"Content-Encoding: zstd\r\n\r\n", again("\x50\x2a\x4d\x18\x00\x00\x00\x00")), Request{BodyLimit: 1 << 20}, TooLarge},
		"a body that is announced":      {then(head+"Content-Length: 9000000000\r\n\r\n", hangUp), Request{}, TooLarge},
		"gzip bomb":                     {text(head + "Content-Encoding: gzip\r\nContent-Length: " + itoa(len(large)) + "\r\n\r\n" + large), Request{BodyLimit: 16 << 20}, TooLarge},
		"no answer":                     {then("", hangUp), Request{Read: time.Second}, TimeoutRead},
		"half a header":                 {then(head+"Content-", hangUp), Request{Read: time.Second}, TimeoutRead},
		"half a body":                   {then(head+"Content-Length: 100\r\n\r\nhalf", hangUp), Request{Read: time.Second}, TimeoutRead},
		"too long in all":               {then(head+"\r\n", hangUp), Request{Whole: time.Second}, Timeout},
		"closed at once":                {text(""), Request{}, ConnectionLost},
		"reset at once":                 {then("", reset), Request{}, ConnectionLost},
		"closed in the header":          {text(head + "Content-Type: text/plain\r\n"), Request{}, ConnectionLost},
		"shorter than announced":        {text(head + "Content-Length: 100\r\n\r\nshort"), Request{}, Incomplete},
		"chunks that end early":         {text(head + "Transfer-Encoding: chunked\r\n\r\n5\r\npag"), Request{}, Incomplete},
		"broken chunks":                 {text(head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\npage"), Request{}, BadResponse},
		"a chunk of a huge length":      {text(head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\npage"), Request{}, BadResponse},
		"reset in the body":             {then(head+"Content-Length: 100\r\n\r\nhalf", reset), Request{}, ConnectionLost},
		"two lengths":                   {text(head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\npage  "), Request{}, BadResponse},
		"a length below zero":           {text(head + "Content-Length: -1\r\n\r\npage"), Request{}, BadResponse},
		"longer than announced":         {text(ok("page") + "garbage"), Request{}, ""},
		"endless header":                {then(head, again("X-Header: "+page+"\r\n")), Request{}, BadResponse},
		"endless line of a header":      {then(head+"X-Header: ", again(page)), Request{}, BadResponse},
		"a header of 200 KB":            {text(head + "X-Header: " + strings.Repeat("x", 200_000) + "\r\nContent-Length: 4\r\n\r\npage"), Request{}, ""},
		"endless status line":           {then("HTTP/1.1 200 ", again(page)), Request{}, BadResponse},
		"1xx without end":               {then("", again("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")), Request{}, BadResponse},
		"five 1xx":                      {text(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 5) + ok("page")), Request{}, ""},
		"another protocol":              {text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), Request{}, BadResponse},
		"not HTTP":                      {text("SSH-2.0-OpenSSH_9.2\r\n\r\n"), Request{}, BadResponse},
		"zeroes":                        {then("", again("\x00\x00\x00\x00")), Request{}, BadResponse},
		"a space in the name":           {text(head + "Content-Length : 4\r\n\r\npage"), Request{}, ""},
		"gzip that is none":             {text(head + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\npages"), Request{}, BadEncoding},
		"gzip that breaks off":          {text(head + "Content-Encoding: gzip\r\nContent-Length: 30\r\n\r\n" + small[:30]), Request{}, BadEncoding},
		"gzip, connection breaks off":   {text(head + "Content-Encoding: gzip\r\nContent-Length: 300\r\n\r\n" + small[:30]), Request{}, Incomplete},
		"gzip and garbage":              {text(head + "Content-Encoding: gzip\r\n\r\n" + bomb(t, 4) + "garbage"), Request{}, ""},
		"gzip of nothing":               {text(head + "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"), Request{}, ""},
		"an unknown coding":             {text(head + "Content-Encoding: lzma\r\nContent-Length: 4\r\n\r\npage"), Request{}, BadEncoding},
		"many codings":                  {text(head + "Content-Encoding: " + strings.Repeat("gzip, ", 9) + "\r\nContent-Length: 4\r\n\r\npage"), Request{}, BadEncoding},
		"redirect to a file":            {text("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"), Request{}, BadRedirect},
		"redirect to gopher":            {text("HTTP/1.1 302 Found\r\nLocation: gopher://127.0.0.1:6379/_FLUSHALL\r\n\r\n"), Request{}, BadRedirect},
		"redirect to nowhere":           {text("HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\n\r\n"), Request{}, BadRedirect},
		"redirect without a place":      {text("HTTP/1.1 302 Found\r\nContent-Length: 4\r\n\r\npage"), Request{}, BadRedirect},
		"304 that nobody asked for":     {text("HTTP/1.1 304 Not Modified\r\n\r\n"), Request{}, BadResponse},
		"304 that was asked for":        {text("HTTP/1.1 304 Not Modified\r\n\r\n"), Request{Header: header("If-None-Match", "x")}, ""},
		"206 that nobody asked for":     {text("HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\npage"), Request{}, BadResponse},
		"206 that was asked for":        {text("HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\npage"), Request{Header: header("Range", "bytes=0-3")}, ""},
		"a redirect that is not wanted": {text("HTTP/1.1 302 Found\r\nContent-Length: 4\r\n\r\npage"), Request{RedirectLimit: -1}, ""},
		"redirect to metadata":          {text("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\n\r\n"), Request{}, RefusedAddress},
		"redirect to metadata, odd":     {text("HTTP/1.1 302 Found\r\nLocation: http://0xa9.254.43518/\r\n\r\n"), Request{}, RefusedAddress},
		"redirect to metadata, wrapped": {text("HTTP/1.1 302 Found\r\nLocation: http://[::ffff:169.254.169.254]/\r\n\r\n"), Request{}, RefusedAddress},
		"redirect to a port of mail":    {text("HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:25/\r\n\r\n"), Request{}, RefusedPort},
		"redirect to itself":            {text("HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"), Request{}, RedirectLoop},
		"redirect with an endless body": {then("HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", again(page)), Request{}, RedirectLoop},
		"redirect with a body that hangs": {then("HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 9\r\n\r\n", hangUp),
			Request{}, RedirectLoop},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil, test.speak)
			f := fetcher(t, Options{})
			test.r.URI = s.uri()
			answer, _, e := get(t, f, test.r)
			if e == nil {
				e = answer.Failure()
			}
			switch {
			case test.want == "" && e != nil:
				t.Errorf("got %v, want an answer", e)
			case test.want != "" && e == nil:
				t.Errorf("got an answer with status %d, want %s", answer.Status, test.want)
			case test.want != "" && (e.Reason != test.want || e.Permanent != meanings[test.want].Permanent || len(e.Error()) > MaxErrorBytes):
				t.Errorf("got %s, permanent %t: %v; want %s", e.Reason, e.Permanent, e, test.want)
			}
			f.Close() // so that the server's connections end
		})
	}
}

// The clock advances by a second each time it is read.
func TestOneByteASecond(t *testing.T) {
	s := serve(t, nil, func(conn net.Conn, _ string) {
		say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false)
		say(conn, "1\r\nx\r\n", true)
	})
	var seconds atomic.Int64
	f := fetcher(t, Options{Now: func() time.Time { return time.Unix(seconds.Add(1), 0) }})
	// Chunks may be read together, a buffer of 16 KiB at a time.
	if _, _, e := get(t, f, Request{URI: s.uri(), MinRate: 1 << 20}); e == nil || e.Reason != TooSlow {
		t.Errorf("got %v, want %s", e, TooSlow)
	}
	if _, _, e := get(t, f, Request{URI: s.uri(), MinRate: -1, BodyLimit: 1 << 16}); e == nil || e.Reason != TooLarge {
		t.Errorf("without a least rate: got %v, want %s", e, TooLarge)
	}
}

// A redirect is followed although its body does not come, or has no end.
func TestRedirectWhoseBodyDoesNotCome(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]string{
		"no length":           "\r\n",
		"a length":            "Content-Length: 9\r\n\r\npart",
		"chunks without end":  "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
		"gzip without an end": "Content-Encoding: gzip\r\n\r\n\x1f\x8b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, func(conn net.Conn, request string) {
				if strings.HasPrefix(request, "GET /next ") {
					say(conn, ok("page"), false)
					return
				}
				say(conn, "HTTP/1.1 302 Found\r\nLocation: /next\r\n"+rest, false)
				hangUp(conn)
			})
			for _, passed := range []func(Passed){nil, func(Passed) {}} {
				if _, text, e := get(t, fetcher(t, Options{}), Request{URI: s.uri(), Passed: passed}); e != nil || text != "page" {
					t.Errorf("%q, %v", text, e)
				}
			}
		})
	}
}

func TestTenThousandRedirects(t *testing.T) {
	var asked atomic.Int64
	s := serve(t, nil, func(conn net.Conn, _ string) {
		say(conn, "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /"+itoa(int(asked.Add(1)))+"\r\n\r\n", false)
	})
	f := fetcher(t, Options{})
	for limit, want := range map[int]int64{0: 11, 1: 2, 25: 26} {
		asked.Store(0)
		if _, _, e := get(t, f, Request{URI: s.uri(), RedirectLimit: limit}); e == nil || e.Reason != TooManyRedirects || asked.Load() != want {
			t.Errorf("limit %d: got %v after %d requests, want %d", limit, e, asked.Load(), want)
		}
	}
	if answer, _, e := get(t, f, Request{URI: s.uri(), RedirectLimit: -1}); e != nil || answer.Status != 302 {
		t.Errorf("not followed: got %+v and %v", answer, e)
	}
}

// Nothing on this machine is called, however its address is written, and no connection is opened.
func TestRefused(t *testing.T) {
	s := serve(t, nil, func(conn net.Conn, _ string) { t.Error("the server was called"); say(conn, ok("secret"), false) })
	port := s.listener.Addr().(*net.TCPAddr).Port
	f := fetcher(t, Options{Guard: guard.New(guard.Options{})})
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0", "0.0.0.0", "①②⑦.0.0.1", "169.254.169.254", "10.0.0.1", "[fe80::1]", "[fd00:ec2::254]",
	} {
		if _, _, e := get(t, f, Request{URI: "http://" + host + ":" + itoa(port) + "/"}); e == nil || e.Reason != RefusedAddress || !e.Permanent {
			t.Errorf("%s: got %v, want %s", host, e, RefusedAddress)
		}
	}
	for uri, want := range map[string]Reason{
		"http://93.184.215.14:25/": RefusedPort, "https://example.com:6667/": RefusedPort, "file:///etc/passwd": BadURI, "gopher://127.0.0.1/": BadURI, "": BadURI,
		"http://" + strings.Repeat("a.", 200) + "example/": BadURI,
	} {
		if _, _, e := get(t, f, Request{URI: uri}); e == nil || e.Reason != want {
			t.Errorf("%.50s: got %v, want %s", uri, e, want)
		}
	}
}

func TestBadRequest(t *testing.T) {
	s := serve(t, nil, func(net.Conn, string) { t.Error("the server was called") })
	f := fetcher(t, Options{})
	for name, r := range map[string]Request{
		"injected value": {Header: header("X-A", "b\r\nX-C: d")}, "injected name": {Header: header("X-A: b\r\nX-C", "d")}, "no name": {Header: header("", "d")},
		"host": {Header: header("host", "other.example")}, "length": {Header: header("Content-Length", "5")}, "proxy": {Header: header("Proxy-Authorization", "x")},
		"zero": {Header: header("X-A", "\x00")}, "method": {Method: "GET / HTTP/1.1\r\nX:"}, "connect": {Method: "CONNECT"},
	} {
		r.URI = s.uri()
		if _, _, e := get(t, f, r); e == nil || e.Reason != BadRequest {
			t.Errorf("%s: got %v, want %s", name, e, BadRequest)
		}
	}
}

func TestCanceled(t *testing.T) {
	asked := make(chan bool, 10)
	s := serve(t, nil, func(conn net.Conn, _ string) { asked <- true; hangUp(conn) })
	f := fetcher(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	var e *Error
	if _, err := f.Fetch(ctx, Request{URI: s.uri()}); !errors.As(err, &e) || e.Reason != Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
	var err error
	for limit := time.Second; limit < time.Minute; limit *= 2 { // a busy machine may need longer to connect
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err = f.Fetch(ctx, Request{URI: s.uri(), Connect: time.Minute})
		cancel()
		if !errors.As(err, &e) || e.Reason != TimeoutConnect {
			break
		}
	}
	if !errors.As(err, &e) || e.Reason != Timeout {
		t.Errorf("the caller's deadline: got %v", err)
	}
}

// Text from a server never becomes more than one line of text in a log.
func TestErrorText(t *testing.T) {
	e := failure(BadResponse, "http://a/"+strings.Repeat("x", 60_000), errors.New("a\r\nb\x1b[31m\xff"+strings.Repeat("ü", 20_000)))
	text := e.Error()
	if len(text) > MaxErrorBytes || strings.ContainsAny(text, "\r\n\x1b") || !utf8.ValidString(text) || !strings.Contains(text, "the answer violates HTTP") {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
}
