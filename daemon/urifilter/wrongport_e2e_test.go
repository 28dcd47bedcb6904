package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// Each kind of caller at each port: a port serves its own, and tells the others in their protocol
// where they are served. Who begins with TLS where there is none cannot be told in its protocol:
// its library says that this is no TLS, and the sentence is what it has received.
func TestEveryCallerAtEveryPort(t *testing.T) {
	authority := certtest.New(t, "authority")
	pair := authority.Issue(t, "daemon", time.Hour, "127.0.0.1")
	trusting := &tls.Config{RootCAs: authority.Roots(), MinVersion: tls.VersionTLS12}
	ports := map[string]string{}
	for _, p := range []string{"http", "https", "resp", "resps"} {
		ports[p] = testserver.Free(t)
	}
	processtest.BeginAt(t, ports["http"], t.TempDir(), []string{"URIFILTER_RESP_LISTEN=" + ports["resp"]})
	processtest.BeginAt(t, ports["https"], t.TempDir(), []string{
		"URIFILTER_RESP_LISTEN=" + ports["resps"], "URIFILTER_TLS_CERT_FILE=" + pair.Cert, "URIFILTER_TLS_KEY_FILE=" + pair.Key,
	})
	callHTTP := func(scheme, at string) (string, error) {
		transport := &http.Transport{TLSClientConfig: trusting.Clone(), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		// The body is more than the port reads before it answers: a reset must not overtake the answer.
		answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Post(scheme+"://"+at+"/api/v1/check?filter=uri", "text/plain", strings.NewReader(strings.Repeat("an item\n", 10_000)))
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return fmt.Sprintf("%s %d %.300s", answer.Proto, answer.StatusCode, text), err
	}
	callRESP := func(encrypted bool, at string) (string, error) {
		c, err := net.Dial("tcp", at)
		if err != nil {
			return "", err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if encrypted {
			own := trusting.Clone()
			own.ServerName = "127.0.0.1"
			c = tls.Client(c, own)
		}
		if _, err := io.WriteString(c, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n"); err != nil {
			return "", err
		}
		text, err := io.ReadAll(c)
		return string(text), err
	}
	hello := func(at string) string { // what a caller gets that begins with TLS
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc"+strings.Repeat("x", 500)); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c)
		return fmt.Sprint(string(text), err)
	}
	testserver.AwaitNil(t, "both ports answer", func() error {
		_, err := callHTTP("http", ports["http"])
		if err == nil {
			_, err = callHTTP("https", ports["https"])
		}
		return err
	})
	const noTLS = "first record does not look like a TLS handshake"
	for _, test := range []struct{ caller, port, want, fails string }{
		{"http", "http", `HTTP/1.1 200 `, ""},
		{"http", "https", "HTTP/1.1 400 This port speaks TLS, and the request came without: call it by https://", ""},
		{"http", "resp", "HTTP/1.1 400 This port speaks RESP, the protocol of Redis clients. HTTP is at http://" + ports["http"], ""},
		{"http", "resps", "HTTP/1.1 400 This port speaks RESP, the protocol of Redis clients. HTTP is at https://" + ports["https"], ""},
		{"https", "http", "", "server gave HTTP response to HTTPS client"},
		{"https", "https", `HTTP/2.0 200 `, ""},
		{"https", "resp", "", noTLS},
		{"https", "resps", "HTTP/1.1 400 This port speaks RESP, the protocol of Redis clients. HTTP is at https://" + ports["https"], ""},
		{"resp", "http", "-ERR this port speaks HTTP; clients of Redis are served at " + ports["resp"], ""},
		{"resp", "https", "-ERR this port speaks HTTP; clients of Redis are served at " + ports["resps"], ""},
		{"resp", "resp", "+PONG\r\n+OK\r\n", ""},
		{"resp", "resps", "-ERR Protocol error: this port speaks TLS: connect with TLS (redis-cli --tls, rediss://)", ""},
		{"resps", "http", "", noTLS},
		{"resps", "https", "-ERR this port speaks HTTP; clients of Redis are served at " + ports["resps"], ""},
		{"resps", "resp", "", noTLS},
		{"resps", "resps", "+PONG\r\n+OK\r\n", ""},
	} {
		call := func() (string, error) { return callHTTP(test.caller, ports[test.port]) }
		if strings.HasPrefix(test.caller, "resp") {
			call = func() (string, error) { return callRESP(test.caller == "resps", ports[test.port]) }
		}
		got, err := call()
		switch {
		case test.fails == "" && (err != nil || !strings.HasPrefix(got, test.want)):
			t.Errorf("%s at the port %s: got %q, %v; want %q", test.caller, test.port, got, err, test.want)
		case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
			t.Errorf("%s at the port %s: got %q, %v; want the error %q", test.caller, test.port, got, err, test.fails)
		}
	}
	for port, want := range map[string]string{
		"http": "This port speaks HTTP without TLS, and the caller began with TLS: call it by http://.\n<nil>",
		"resp": "-ERR Protocol error: this port speaks RESP without TLS: connect without it (redis://); HTTP is at http://" + ports["http"] + "\r\n<nil>",
	} {
		if got := hello(ports[port]); !strings.HasSuffix(got, want) {
			t.Errorf("TLS at the port %s: got %q", port, got)
		}
	}
}
