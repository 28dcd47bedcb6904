package wrongport

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

// served is a server of TLS, and how a client trusts it.
func served(t *testing.T) (addr string, trusting *tls.Config) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	authority := certtest.New(t, "authority")
	pair := authority.Issue(t, "server", time.Hour, "127.0.0.1")
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), ReadHeaderTimeout: time.Minute, Protocols: Inside()}
	done := make(chan error, 1)
	go func() {
		config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		done <- server.Serve(Encrypted(Listener(l, true, "127.0.0.1:6380"), config, "127.0.0.1:6380"))
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l.Addr().String(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// A reset would hit a request whose body comes in separate pieces.
func TestPlainRequests(t *testing.T) {
	addr, _ := served(t)
	for range 200 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", 10_000)
		for _, part := range []string{"POST /api/v1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n", body, body} {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 400 || string(said) != text {
			t.Fatalf("%d %q %v", resp.StatusCode, said, err)
		}
		c.Close()
	}
}

func TestRequestsByTLS(t *testing.T) {
	addr, trusting := served(t)
	for _, version := range []int{1, 2} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting.Clone(), ForceAttemptHTTP2: version == 2}}
		defer client.CloseIdleConnections()
		resp, err := client.Post("https://"+addr, "text/plain", strings.NewReader("as it is"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if said, err := io.ReadAll(resp.Body); err != nil || string(said) != "as it is" || resp.ProtoMajor != version {
			t.Fatalf("HTTP/%d: %s %q %v", version, resp.Proto, said, err)
		}
	}
	// A request may come in pieces, of which the first is shorter than the preface of HTTP/2.
	c, err := tls.Dial("tcp", addr, trusting)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, part := range []string{"P", "OST / HTTP/1.1\r\nHost: x\r\nConnec", "tion: close\r\nContent-Length: 2\r\n\r\nh", "i"} {
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(said), "\r\n\r\nhi") {
		t.Errorf("in pieces: %q, %v", said, err)
	}
}

// A connection with neither TLS nor HTTP is closed without any answer that could be misread.
func TestGarbage(t *testing.T) {
	addr, _ := served(t)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if said, _ := io.ReadAll(c); strings.Contains(string(said), "HTTP") {
		t.Fatalf("%q", said)
	}
}

// A client of Redis is told in its protocol where to go, on a port with TLS and on one without.
func TestClientsOfRedis(t *testing.T) {
	const at = "127.0.0.1:6380"
	encrypted, trusting := served(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(Listener(l, false, at)) }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	plain := func(addr string) func() (net.Conn, error) {
		return func() (net.Conn, error) { return net.Dial("tcp", addr) }
	}
	for _, dial := range []func() (net.Conn, error){
		plain(encrypted), plain(l.Addr().String()), func() (net.Conn, error) { return tls.Dial("tcp", encrypted, trusting) },
	} {
		for _, command := range []string{"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "PING\r\n", "bf.add uri https://example.com/\n", "GET key\r\n"} {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, command); err != nil {
				t.Fatal(err)
			}
			if said, err := io.ReadAll(c); err != nil || string(said) != "-ERR this port speaks HTTP; clients of Redis are served at "+at+"\r\n" {
				t.Errorf("%q: %q, %v", command, said, err)
			}
			c.Close()
		}
	}
	// What HTTP would be is left to HTTP, however wrong it is.
	for _, request := range []string{"GET /\r\n\r\n", "GET example.com HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\nGET / HTTP/1.1\r\n\r\n"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(c); err != nil || strings.HasPrefix(string(said), "-ERR") {
			t.Errorf("%q: %q, %v", request, said, err)
		}
		c.Close()
	}
	answer, err := http.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("HTTP: %s", answer.Status)
	}
}

// ending is a connection whose data come with their end, as those of TLS may.
type ending struct {
	net.Conn
	data []byte
}

func (e *ending) Read(p []byte) (int, error) {
	n := copy(p, e.data)
	if e.data = e.data[n:]; len(e.data) > 0 {
		return n, nil
	}
	return n, io.EOF
}

// A caller who sends a request and ends his half at once is read to the end, in whatever pieces the server reads.
func TestRequestThatComesWithItsEnd(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for _, piece := range []int{1, 14, firstBytes, 4096} {
		c := &conn{Conn: wrap.Conn{Conn: &ending{data: []byte(request)}}, port: &port{}}
		var got []byte
		p := make([]byte, piece)
		for {
			n, err := c.Read(p)
			if got = append(got, p[:n]...); err != nil {
				break
			}
		}
		if string(got) != request {
			t.Errorf("in pieces of %d bytes: %q", piece, got)
		}
	}
}
