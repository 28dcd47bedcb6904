package secret

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]string{"hunter2": "hunter2", "hunter2\n": "hunter2", "hunter2\r\n": "hunter2", " a b ": " a b ", "": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(file); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
	if got, err := Read(""); err != nil || got != "" {
		t.Errorf("no file named: %q, %v", got, err)
	}
	if _, err := Read(file + ".none"); err == nil || !strings.Contains(err.Error(), file+".none") {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// A token is one word that fits into a header.
func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"hunter2": "hunter2", " hunter2\r\n": "hunter2", "": "", "\n": "", "a\nb\n": "", "token: a": "", "gehe\u00efm": "", strings.Repeat("x", 5000): ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken(file)
		if got != want || (err == nil) != (want != "") || err != nil && err.Error() != file+": want one token and nothing else" {
			t.Errorf("%.20q: got %q, %v; want %q", text, got, err, want)
		}
	}
	if got, err := ReadToken(""); err != nil || got != "" {
		t.Errorf("no file named: %q, %v", got, err)
	}
}

// A renewed certificate is used after a reload; an unusable one leaves the old one in use.
func TestCertificateIsReadAnew(t *testing.T) {
	authority := certtest.New(t, "authority")
	inUse := authority.Issue(t, "first", time.Hour, "127.0.0.1")
	cert, err := OpenCertificate(inUse.Cert, inUse.Key)
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want string) {
		t.Helper()
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		served := make(chan error, 1)
		go func() { served <- tls.Server(there, cert.Config()).Handshake() }()
		conn := tls.Client(here, &tls.Config{RootCAs: authority.Roots(), ServerName: "127.0.0.1"})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("shows %s, want %s", got, want)
		}
	}
	shows("first")
	renewed := authority.Issue(t, "second", time.Hour, "127.0.0.1")
	certtest.Replace(t, renewed.Cert, inUse.Cert)
	if err := cert.Reload(); err == nil || !strings.HasPrefix(err.Error(), "tls: ") {
		t.Errorf("a certificate without its key: %v", err)
	}
	shows("first")
	certtest.Replace(t, renewed.Key, inUse.Key)
	if err := cert.Reload(); err != nil {
		t.Error(err)
	}
	shows("second")
	if _, err := OpenCertificate(inUse.Cert+".none", inUse.Key); err == nil {
		t.Error("a file that does not exist is no error")
	}
}
