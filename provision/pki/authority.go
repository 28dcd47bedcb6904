// Package pki gives hosts certificates with which daemons, Redis and the archive authenticate one
// another: from an authority that it makes on the operator's machine, or the operator's own. It
// puts them on hosts and renews them in time. The authority's key never leaves the operator's
// machine, and no key is shown.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	authorityFile = "authority.pem" // key and certificate, mode 0600
	renewFile     = "renew"         // certificates older than the time in it are renewed
	authorityLife = 10 * 365 * 24 * time.Hour
	// skew is how far a host's clock may be behind.
	skew = time.Hour
)

// Authority signs certificates.
type Authority struct {
	PEM  string // its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// OpenAuthority reads the authority of a folder. The error is fs.ErrNotExist if there is none.
func OpenAuthority(dir string) (*Authority, error) {
	path := filepath.Join(dir, authorityFile)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s: mode %04o: others may read the key that every host trusts\nhint: chmod 600 %[1]s; if others have read it, make another: docs/operations.md, \"Replace the authority\"", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a, err := parseAuthority(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w\nhint: put back the file from a backup", path, err)
	}
	return a, nil
}

func parseAuthority(text []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("it is no authority of the toolkit")
	}
	return &Authority{PEM: string(encode("CERTIFICATE", pair.Certificate[0])), cert: pair.Leaf, key: key}, nil
}

// MakeAuthority creates one in a folder atomically; if another process does so at the same time,
// that one is returned.
func MakeAuthority(dir string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	form := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "urifilter " + now.UTC().Format("2006-01-02")},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	text, err := sign(form, form, key, key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(temp.Name(), filepath.Join(dir, authorityFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return OpenAuthority(dir)
}

// valid returns an error for an authority whose certificates every host would refuse.
func (a *Authority) valid(now time.Time) error {
	if from, to := a.cert.NotBefore.UTC(), a.cert.NotAfter.UTC(); now.Before(from) || now.After(to) {
		return fmt.Errorf("the authority is valid from %s to %s, and the clock of this machine says %s\nhint: set the clock if it is wrong; if it was wrong when the authority was made, or the authority has ended: docs/operations.md, \"Replace the authority\"",
			from.Format(time.DateTime), to.Format(time.DateTime), now.UTC().Format(time.DateTime))
	}
	return nil
}

// Issue returns a new certificate with its key, in one text, for servers and for clients. Names are
// host names and IP addresses; it expires no later than the authority.
func (a *Authority) Issue(subject string, names []string, now time.Time, life time.Duration) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	end := now.Add(life)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	form := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: subject}, NotBefore: now.Add(-skew), NotAfter: end,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			form.IPAddresses = append(form.IPAddresses, ip)
		} else {
			form.DNSNames = append(form.DNSNames, name)
		}
	}
	text, err := sign(form, a.cert, key, a.key)
	return string(text), err
}

// Due says why a new certificate is needed, "" if it is not: pair is the one on the host, asked is
// when a renewal of all was requested.
func (a *Authority) Due(pair string, names []string, now, asked time.Time) string {
	if pair == "" {
		return "there is none"
	}
	leaf, err := leafOf(pair)
	if err != nil {
		return "it cannot be used: " + err.Error()
	}
	if err := leaf.CheckSignatureFrom(a.cert); err != nil {
		return "it is not of this authority"
	}
	for _, name := range names {
		if leaf.VerifyHostname(bracketed(name)) != nil {
			return "it lacks the name " + name
		}
	}
	made := leaf.NotBefore.Add(skew)
	switch left := leaf.NotAfter.Sub(now); {
	case leaf.NotBefore.After(now): // every host refuses it until then
		return "it is not valid yet: the clock of the machine that made it was ahead"
	case made.Before(asked.Truncate(time.Second)): // certificates have whole seconds
		return "a renewal was asked for"
	case left < leaf.NotAfter.Sub(made)/3 && leaf.NotAfter.Before(a.cert.NotAfter):
		return "it ends at " + leaf.NotAfter.UTC().Format(time.DateOnly)
	case left <= 0:
		return "it has ended"
	}
	return ""
}

func bracketed(name string) string {
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}

// leafOf returns the certificate of a text with its key.
func leafOf(pair string) (*x509.Certificate, error) {
	p, err := tls.X509KeyPair([]byte(pair), []byte(pair))
	return p.Leaf, err
}

// sign returns the text of a key and its certificate.
func sign(form, parent *x509.Certificate, key, by *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, form, parent, key.Public(), by)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{encode("PRIVATE KEY", private), encode("CERTIFICATE", der)}, nil), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, according to its documentation
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
