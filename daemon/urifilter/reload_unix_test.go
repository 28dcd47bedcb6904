//go:build unix

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A new tokens file is used after a reload, and one with a fault is not.
func TestReload(t *testing.T) {
	t.Parallel()
	m := newManager(t)
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
	p := begin(t, t.TempDir(), m.env(), "--tokens-file", file)
	m.await("READY=1", 1)
	works := func(secret string, want int) {
		t.Helper()
		status, answer, err := p.post(context.Background(), "/api/v1/filter", fmt.Sprintf(`{"filter_typeid":1,"uri_list":["a"],"access_token":%q}`, secret))
		if err != nil || status != want {
			t.Errorf("token %s: status %d, %v, want %d: %s", secret, status, err, want, answer)
		}
	}
	works(first, 200)
	works(second, 401)
	write(token(second))
	p.signal(syscall.SIGHUP)
	m.await("READY=1", 2)
	works(first, 401)
	works(second, 200)
	for n, text := range []string{"- {name: a, token: short, scopes: [filter]}\n", "", "{"} {
		write(text)
		p.signal(syscall.SIGHUP)
		m.await("READY=1", 3+n)
		works(second, 200)
		mustContain(t, p.log.String(), "tokens not reloaded; those read before stay in use", file)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	m.await("READY=1", 6)
	works(second, 200)
	if said := m.all(); strings.Count(said, "\nRELOADING=1\nMONOTONIC_USEC=") != 5 {
		t.Errorf("want five reloads in:%s", said)
	}
	if strings.Contains(p.log.String(), second) {
		t.Error("a token is in the log")
	}
}

// selfSigned makes a certificate for 127.0.0.1, and the pool that trusts it.
func selfSigned(t *testing.T, name string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return certFile, keyFile, roots
}

// A certificate that was renewed is used after a reload, and a broken one is not.
func TestReloadCertificate(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	cert, key, _ := selfSigned(t, "first")
	p := begin(t, t.TempDir(), append(m.env(), "URIFILTER_TLS_CERT_FILE="+cert, "URIFILTER_TLS_KEY_FILE="+key))
	m.await("READY=1", 1)
	shows := func(want string) {
		t.Helper()
		conn, err := tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("the certificate is %s, want %s", got, want)
		}
	}
	shows("first")
	newCert, newKey, _ := selfSigned(t, "second")
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	p.signal(syscall.SIGHUP)
	m.await("READY=1", 2)
	shows("second")
	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	m.await("READY=1", 3)
	shows("second")
	mustContain(t, p.log.String(), "certificate not reloaded")
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log)
	}
}
