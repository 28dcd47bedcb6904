//go:build unix

package service_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A new tokens file is used after a reload; a faulty one is not.
func TestReload(t *testing.T) {
	t.Parallel()
	m := processtest.NewManager(t)
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token := func(secret string) string { return fmt.Sprintf("- {name: a, token: %s, scopes: [filter]}\n", secret) }
	const first, second = "first-0123456789", "second-0123456789"
	write(token(first))
	p := processtest.Begin(t, t.TempDir(), m.Env(), "--tokens-file", file)
	m.Await("READY=1", 1)
	works := func(secret string, want int) {
		t.Helper()
		status, answer, err := p.Post(context.Background(), "/api/v1/filter", fmt.Sprintf(`{"filter_typeid":1,"uri_list":["a"],"access_token":%q}`, secret))
		if err != nil || status != want {
			t.Errorf("token %s: status %d, %v, want %d: %s", secret, status, err, want, answer)
		}
	}
	works(first, 200)
	works(second, 401)
	write(token(second))
	p.Signal(syscall.SIGHUP)
	m.Await("READY=1", 2)
	works(first, 401)
	works(second, 200)
	for n, text := range []string{"- {name: a, token: short, scopes: [filter]}\n", "", "{"} {
		write(text)
		p.Signal(syscall.SIGHUP)
		m.Await("READY=1", 3+n)
		works(second, 200)
		p.AwaitLog("tokens not reloaded; those read before stay in use", file)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	m.Await("READY=1", 6)
	works(second, 200)
	if said := m.String(); strings.Count(said, "\nRELOADING=1\nMONOTONIC_USEC=") != 5 {
		t.Errorf("want five reloads in:%s", said)
	}
	if strings.Contains(p.Log.String(), second) {
		t.Error("a token is in the log")
	}
}

// A renewed certificate is used after a reload; a broken one is not.
func TestReloadCertificate(t *testing.T) {
	t.Parallel()
	m := processtest.NewManager(t)
	authority := certtest.New(t, "authority")
	inUse := authority.Issue(t, "first", time.Hour, "127.0.0.1")
	p := processtest.Begin(t, t.TempDir(), append(m.Env(), "URIFILTER_TLS_CERT_FILE="+inUse.Cert, "URIFILTER_TLS_KEY_FILE="+inUse.Key))
	m.Await("READY=1", 1)
	shows := func(want string) {
		t.Helper()
		conn, err := tls.Dial("tcp", p.Addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("the certificate is %s, want %s", got, want)
		}
	}
	shows("first")
	renewed := authority.Issue(t, "second", time.Hour, "127.0.0.1")
	certtest.Replace(t, renewed.Cert, inUse.Cert)
	certtest.Replace(t, renewed.Key, inUse.Key)
	p.Signal(syscall.SIGHUP)
	m.Await("READY=1", 2)
	shows("second")
	if err := os.WriteFile(inUse.Cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	m.Await("READY=1", 3)
	shows("second")
	p.AwaitLog("certificate not reloaded")
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
	}
}
