package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

var now = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func made(t *testing.T) (dir string, a *Authority) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "tls")
	if _, err := OpenAuthority(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before: %v", err)
	}
	a, err := MakeAuthority(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return dir, a
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	dir, a := made(t)
	for name, want := range map[string]fs.FileMode{authorityFile: 0o600, ".gitignore": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if strings.Contains(a.PEM, "PRIVATE") {
		t.Error("what goes to hosts holds the key")
	}
	again, err := MakeAuthority(dir, now.Add(day))
	if err != nil || again.PEM != a.PEM {
		t.Errorf("a second one was made: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) != 0 || err != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
	path := filepath.Join(dir, authorityFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), "hint: chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), "hint: put back the file") {
		t.Errorf("damaged: %v", err)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	_, a := made(t)
	_, other := made(t)
	names := []string{"127.0.0.1", "redis.example", "2001:db8::1"}
	pair, err := a.Issue("one", names, now, 300*day)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pair  string
		names []string
		at    time.Time
		asked time.Time
		want  string
	}{
		{pair, names, now, time.Time{}, ""},
		{pair, names[:1], now.Add(200 * day), time.Time{}, ""},
		{pair, nil, now.Add(201 * day), time.Time{}, "it ends at 2027-09-18"},
		{pair, nil, now.Add(301 * day), time.Time{}, "it ends at"},
		{pair, []string{"10.0.0.1"}, now, time.Time{}, "it lacks the name 10.0.0.1"},
		{pair, nil, now, now.Add(time.Second), "a renewal was asked for"},
		{pair, nil, now, now.Add(900 * time.Millisecond), ""},
		{"", nil, now, time.Time{}, "there is none"},
		{pair[:len(pair)/2], nil, now, time.Time{}, "it cannot be used"},
	} {
		if got := a.Due(c.pair, c.names, c.at, c.asked); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%v at %v, asked %v: got %q, want %q", c.names, c.at, c.asked, got, c.want)
		}
	}
	if got := other.Due(pair, nil, now, time.Time{}); got != "it is not of this authority" {
		t.Errorf("of another authority: %q", got)
	}
	// Near the end of its own life, an authority does not issue the same certificate again and
	// again.
	late := now.Add(authorityLife - 10*day)
	last, err := a.Issue("last", nil, late, 300*day)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Due(last, nil, late.Add(9*day), time.Time{}); got != "" {
		t.Errorf("one that ends with its authority: %q", got)
	}
	if got := a.Due(last, nil, late.Add(11*day), time.Time{}); got != "it has ended" {
		t.Errorf("after its authority: %q", got)
	}
}

// A clock that was ahead, and is right again, leaves nothing that hosts refuse, or that no run can fulfil.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	dir, a := made(t)
	for _, ahead := range []time.Duration{2 * skew, 400 * day} {
		pair, err := a.Issue("one", nil, now.Add(ahead), 300*day)
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range []time.Time{{}, now} {
			if got := a.Due(pair, nil, now, asked); !strings.HasPrefix(got, "it is not valid yet") {
				t.Errorf("made %v ahead, renewal asked for at %v: %q", ahead, asked, got)
			}
		}
	}
	c := New(Options{Dir: dir, Now: func() time.Time { return now }})
	if err := os.WriteFile(filepath.Join(dir, renewFile), []byte(now.Add(day).Format(time.RFC3339Nano)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.asked(); err == nil || !strings.Contains(err.Error(), "certificates:renew asks again") {
		t.Errorf("a renewal that was asked for tomorrow: %v", err)
	}
	for _, at := range []time.Time{now.Add(-2 * skew), now.Add(authorityLife + day)} {
		c := New(Options{Dir: dir, Now: func() time.Time { return at }})
		if a, err := c.make(t.Context()); err == nil || !strings.Contains(err.Error(), "Replace the authority") {
			t.Errorf("the authority at %v: %v, %v", at, a, err)
		}
	}
}

// An issued certificate is good for a server and a client, as judged by crypto/tls itself.
func TestIssuedIsGood(t *testing.T) {
	t.Parallel()
	_, a := made(t)
	pair, err := a.Issue("one", []string{"127.0.0.1"}, now, day)
	if err != nil {
		t.Fatal(err)
	}
	both, err := tls.X509KeyPair([]byte(pair), []byte(pair))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.PEM))
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := both.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1", CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
}

func TestYourOwn(t *testing.T) {
	t.Parallel()
	_, a := made(t)
	_, other := made(t)
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	issue := func(by *Authority, names []string) (cert, key string) {
		t.Helper()
		pair, err := by.Issue("own", names, now, 100*day)
		if err != nil {
			t.Fatal(err)
		}
		key, cert, _ = strings.Cut(pair, "-----BEGIN CERTIFICATE-----")
		return "-----BEGIN CERTIFICATE-----" + cert, key
	}
	o := Options{CAFile: put("ca.pem", a.PEM), CertFile: filepath.Join(dir, "{host}.pem"), KeyFile: filepath.Join(dir, "{host}.key"), Now: func() time.Time { return now }}
	names := []string{"10.0.0.1"}
	cert, key := issue(a, names)
	put("one.pem", cert)
	put("one.key", key)
	foreign, foreignKey := issue(other, names)
	put("two.pem", foreign)
	put("two.key", foreignKey)
	put("three.pem", cert)
	put("three.key", foreignKey)
	c := New(o)
	ca, pair, err := c.given(t.Context(), "one", names)
	if err != nil || ca != a.PEM || pair != key+cert {
		t.Errorf("good ones: %v", err)
	}
	for _, f := range []struct {
		host  string
		names []string
		want  string
	}{
		{"one", []string{"10.0.0.2"}, "hint: the certificate of a server needs every name and address that it is called by: 10.0.0.2"},
		{"two", names, "hint: want a certificate of the authority in"},
		{"three", names, "private key does not match"},
		{"four", names, "four.key: no such file"},
	} {
		if _, _, err := c.given(t.Context(), f.host, f.names); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v, want %q in it", f.host, err, f.want)
		}
	}
	if err := Renew(o, false); err == nil || !strings.Contains(err.Error(), "renew them where they are made") {
		t.Errorf("renewal: %v", err)
	}
}

func TestRenewalIsAskedFor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tls")
	if err := Renew(Options{Dir: dir}, false); err == nil || !strings.Contains(err.Error(), "hint: set tls: true") {
		t.Errorf("without an authority: %v", err)
	}
	if _, err := MakeAuthority(dir, now); err != nil {
		t.Fatal(err)
	}
	c := New(Options{Dir: dir})
	if err := Renew(Options{Dir: dir}, true); err != nil {
		t.Fatal(err)
	}
	if at, err := c.asked(); !at.IsZero() || err != nil {
		t.Errorf("after a dry run: %v, %v", at, err)
	}
	before := time.Now()
	if err := Renew(Options{Dir: dir}, false); err != nil {
		t.Fatal(err)
	}
	if at, err := c.asked(); at.Before(before) || err != nil {
		t.Errorf("asked: %v, %v", at, err)
	}
	if err := os.WriteFile(filepath.Join(dir, renewFile), []byte("soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.asked(); err == nil || !strings.Contains(err.Error(), "hint: remove the file") {
		t.Errorf("a mark that is none: %v", err)
	}
}

// A host that had a certificate and lacked the file of its authority lacks it again: the rest is put back all the same,
// also by the host itself.
func TestUndoWithoutAnAuthorityBefore(t *testing.T) {
	t.Parallel()
	p := Place{CA: "/etc/urifilter/tls.ca.pem", Pair: "/etc/urifilter/tls.pem"}
	before := map[string]host.File{p.Pair: {Path: p.Pair, Content: "pair", Mode: 0o640, Owner: "root", Group: "urifilter"}}
	h := host.NewRecorder("web1")
	if _, err := p.restore(t.Context(), h, before); err != nil {
		t.Fatal(err)
	}
	if script := h.Script(); !strings.Contains(script, "rm -f "+p.CA) || strings.Count(script, "mktemp") != 1 {
		t.Errorf("the way back is\n%s", script)
	}
}
