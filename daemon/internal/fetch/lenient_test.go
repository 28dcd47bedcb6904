package fetch

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

// oddAnswers are answers of servers that browsers read, all with the body "page"; the connection is
// closed after them.
var oddAnswers = map[string]string{
	"a blank in a name":              "HTTP/1.1 200 OK\r\nX Powered By: php\r\nContent-Length: 4\r\n\r\npage",
	"a blank after a name":           "HTTP/1.1 200 OK\r\nContent-Length : 4\r\nContent-Type : text/html\r\n\r\npage",
	"bytes above 127 in a name":      "HTTP/1.1 200 OK\r\nX-\xd6\xd0: a\r\n continued: b\r\nContent-Length: 4\r\n\r\npage",
	"bytes above 127 in a value":     "HTTP/1.1 200 OK\r\nX-A: \xd6\xd0\r\nContent-Length: 4\r\n\r\npage",
	"no name":                        "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 4\r\n\r\npage",
	"no colon":                       "HTTP/1.1 200 OK\r\nnothing\r\nContent-Length: 4\r\n\r\npage",
	"a second status line":           "HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage",
	"a line that continues nothing":  "HTTP/1.1 200 OK\r\n x: y\r\nContent-Length: 4\r\n\r\npage",
	"controls in a value":            "HTTP/1.1 200 OK\r\nX-A: a\x01b\x7fc\rd\r\nContent-Length: 4\r\n\r\npage",
	"a length twice in a line":       "HTTP/1.1 200 OK\r\nContent-Length: 4, 4\r\n\r\npage",
	"a length three times":           "HTTP/1.1 200 OK\r\nContent-Length: 4,4 , 4\r\nContent-Length: 4\r\n\r\npage",
	"an empty length":                "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\npage",
	"identity":                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 4\r\n\r\npage",
	"identity without a length":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: Identity\r\n\r\npage",
	"identity and chunked":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, Chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n",
	"no line after the last chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n",
	"no line after a trailer":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\nX-A: b\r\n",
	"bare line feeds in the header":  "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n4\r\npage\r\n0\r\n",
	"after an interim answer":        "HTTP/1.1 103 Early Hints\r\nX Y: z\r\n\r\nHTTP/1.1 200 OK\r\nX Y: z\r\nContent-Length: 4, 4\r\n\r\npage",
	"a body that looks like a field": "HTTP/1.1 200 OK\r\nX Y: z\r\n\r\npage",
}

// TestOddAnswers: what browsers read is read, in one piece or byte by byte, plain and with TLS.
func TestOddAnswers(t *testing.T) {
	ca := certtest.New(t, "an authority")
	pair := ca.Issue(t, "a server", time.Hour, "127.0.0.1")
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range oddAnswers {
		for _, with := range []*tls.Config{nil, {Certificates: []tls.Certificate{cert}}} {
			for kind, send := range map[string]func(net.Conn){
				"whole": func(conn net.Conn) { say(conn, text, false) },
				"bytes": func(conn net.Conn) {
					for i := range len(text) {
						say(conn, text[i:i+1], false)
					}
				},
			} {
				s := serve(t, with, func(conn net.Conn, _ string) { send(conn) })
				f := fetcher(t, Options{Roots: ca.Roots()})
				to := s.uri()
				if with != nil {
					to = strings.Replace(to, "http:", "https:", 1)
				}
				answer, body, e := get(t, f, Request{URI: to})
				if e != nil || body != "page" || answer.Status != 200 || answer.Header.Get("Content-Length") != "" && answer.Header.Get("Content-Length") != "4" {
					t.Errorf("%s, %s, TLS %t: got %q and %v", name, kind, with != nil, body, e)
				}
				f.Close()
			}
		}
	}
}

// TestStillRefused: what could be one answer or another stays refused.
func TestStillRefused(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Reason
	}{
		"two lengths in a line":     {"HTTP/1.1 200 OK\r\nContent-Length: 4, 5\r\n\r\npages", BadResponse},
		"a length that is none":     {"HTTP/1.1 200 OK\r\nContent-Length: 4 4\r\n\r\npage", BadResponse},
		"NUL in a value":            {"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 4\r\n\r\npage", BadResponse},
		"another transfer coding":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n", BadResponse},
		"no last chunk":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n", Incomplete},
		"a chunk's end is missing":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage", Incomplete},
		"a chunk that ends in CRLF": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\npage\r\n", Incomplete},
		"a last chunk within one":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\npage\r\n0\r\n", Incomplete},
	} {
		s := serve(t, nil, func(conn net.Conn, _ string) { say(conn, test.text, false) })
		f := fetcher(t, Options{})
		if answer, body, e := get(t, f, Request{URI: s.uri()}); e == nil || e.Reason != test.want {
			t.Errorf("%s: got %+v, %q and %v, want %s", name, answer, body, e, test.want)
		}
		f.Close()
	}
}

// TestOddAnswersKeepTheConnection: the next answer on the connection is read as well.
func TestOddAnswersKeepTheConnection(t *testing.T) {
	connections := 0
	s := serve(t, nil, func(conn net.Conn, _ string) {
		connections++
		for {
			say(conn, "HTTP/1.1 200 OK\r\nX Y: z\r\nContent-Length: 4, 4\r\n\r\npage", false)
			if _, err := readHead(conn); err != nil {
				return
			}
		}
	})
	f := fetcher(t, Options{})
	for range 5 {
		if _, body, e := get(t, f, Request{URI: s.uri()}); e != nil || body != "page" {
			t.Fatalf("got %q and %v", body, e)
		}
	}
	f.Close()
	if connections != 1 {
		t.Errorf("%d connections", connections)
	}
}

type spoken struct {
	net.Conn
	io.Reader
}

func (s spoken) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// readAnswer reads an answer as net/http does.
func readAnswer(from io.Reader) (status int, header http.Header, body []byte, err error) {
	answer, err := http.ReadResponse(bufio.NewReader(from), &http.Request{Method: "GET"})
	if err != nil {
		return 0, nil, nil, err
	}
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, body, err
}

// FuzzLenient: what net/http reads by itself is read alike, byte by byte too, and reading leniently
// makes nothing whole that is not.
func FuzzLenient(f *testing.F) {
	for _, text := range oddAnswers {
		f.Add([]byte(text))
	}
	f.Add([]byte(ok("page")))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\npage\r\n0\r\nX: y\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n\r\n\r\n\r\npage\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		status, header, body, err := readAnswer(bytes.NewReader(text))
		lenient := func(r io.Reader) (int, http.Header, []byte, error) {
			c := &lenientConn{Conn: spoken{Reader: r}, headerLimit: 1 << 20}
			c.begin()
			return readAnswer(c)
		}
		gotStatus, gotHeader, gotBody, gotErr := lenient(bytes.NewReader(text))
		s2, _, b2, e2 := lenient(iotest.OneByteReader(bytes.NewReader(text)))
		if s2 != gotStatus || !bytes.Equal(b2, gotBody) || (e2 == nil) != (gotErr == nil) {
			t.Errorf("in one piece %d, %q, %v; byte by byte %d, %q, %v", gotStatus, gotBody, gotErr, s2, b2, e2)
		}
		for name := range header {
			if !httpguts.ValidHeaderFieldName(name) { // net/http keeps such a field, and does not understand it
				return
			}
		}
		if err != nil {
			return
		}
		if gotErr != nil || gotStatus != status || !bytes.Equal(gotBody, body) {
			t.Errorf("net/http reads %d, %q; leniently it is %d, %q, %v", status, body, gotStatus, gotBody, gotErr)
		}
		for name := range gotHeader {
			if strings.Join(gotHeader[name], ",") != strings.Join(header[name], ",") && header[name] != nil {
				t.Errorf("%s: %q, leniently %q", name, header[name], gotHeader[name])
			}
		}
	})
}
