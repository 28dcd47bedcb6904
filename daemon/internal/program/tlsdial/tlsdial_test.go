package tlsdial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

const day = 24 * time.Hour

// serve shakes hands with every client; its settings may require a certificate.
func serve(t *testing.T, config *tls.Config) (addr string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1)) // shakes hands first, and reports faults
			}()
		}
	}()
	return l.Addr().String()
}

// ask connects and waits for the server's first byte, because a refusal comes instead of it.
func ask(t *testing.T, f Files, addr string) error {
	t.Helper()
	d, err := Open("mongodb", f, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestHintsOfRefusals(t *testing.T) {
	t.Parallel()
	authority, other := certtest.New(t, "authority"), certtest.New(t, "other")
	pair := authority.Issue(t, "server", day, "127.0.0.1")
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	text, err := os.ReadFile(authority.File)
	if err != nil || !known.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		addr := serve(t, &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: version})
		for name, c := range map[string]struct {
			client certtest.Pair
			want   string
		}{
			"none":    {certtest.Pair{}, "client certificate"},
			"strange": {other.Issue(t, "strange", day), "the server does not take the client certificate of mongodb.tls_cert_file"},
			"ended":   {authority.Issue(t, "ended", -time.Hour), "the server does not take the client certificate of mongodb.tls_cert_file"},
		} {
			err := ask(t, Files{CA: authority.File, Cert: c.client.Cert, Key: c.client.Key}, addr)
			if got := Hint("mongodb", err); !strings.Contains(got, c.want) {
				t.Errorf("%s, %s: %v: hint %q, want %q in it", tls.VersionName(version), name, err, got, c.want)
			}
		}
	}
}

// An error before anything was sent is distinguished from others.
func TestErrorsBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t, "authority")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
		_ = l.Close()
	}()
	err = ask(t, Files{CA: authority.File}, l.Addr().String())
	if shake := (*HandshakeError)(nil); !errors.As(err, &shake) {
		t.Errorf("a server that hangs up: %v", err)
	}
	for err == nil || errors.As(err, new(*HandshakeError)) { // until the listener is closed
		err = ask(t, Files{CA: authority.File}, l.Addr().String())
	}
	if op := (*net.OpError)(nil); !errors.As(err, &op) || op.Op != "dial" || Hint("redis", err) != "" {
		t.Errorf("nobody: %v, hint %q", err, Hint("redis", err))
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t, "authority")
	one, two := authority.Issue(t, "one", day), authority.Issue(t, "two", day)
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		files Files
		want  string
	}{
		{Files{CA: missing}, "redis.tls_ca_file: open "},
		{Files{CA: one.Key}, "redis.tls_ca_file: " + one.Key + ": there is no certificate in PEM in it, but a private key"},
		{Files{Cert: missing, Key: one.Key}, "redis.tls_cert_file, tls_key_file: open "},
		{Files{Cert: one.Cert, Key: two.Key}, "private key does not match"},
	} {
		if _, err := Open("redis", c.files, time.Minute, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q in it", c.files, err, c.want)
		}
	}
	// One file may hold both.
	var both []byte
	for _, name := range []string{one.Key, one.Cert} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	if err := os.WriteFile(missing, both, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("redis", Files{Cert: missing, Key: missing}, time.Minute, nil); err != nil {
		t.Error(err)
	}
}
