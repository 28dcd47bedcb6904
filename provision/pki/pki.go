package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/atomicfile"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Options are the source of certificates.
type Options struct {
	// Dir is the folder of the authority on this machine.
	Dir string
	// Life of a certificate. It is renewed when a third of it is left.
	Life time.Duration
	// CAFile, CertFile and KeyFile are the operator's own, in place of an authority; in the last two
	// {host} stands for the host's name.
	CAFile, CertFile, KeyFile string
	// Renew is a time: certificates that the authority made earlier are renewed.
	Renew time.Time
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Certificates are the certificates of a run. It is safe for concurrent use.
type Certificates struct {
	o Options

	mu        sync.Mutex
	authority *Authority
}

// New reads nothing yet.
func New(o Options) *Certificates {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Certificates{o: o}
}

func (c *Certificates) own() bool { return c.o.CAFile != "" }

// open returns the authority, nil if there is none yet.
func (c *Certificates) open() (*Authority, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.authority != nil {
		return c.authority, nil
	}
	a, err := OpenAuthority(c.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := a.valid(c.o.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.o.Dir, authorityFile), err)
	}
	c.authority = a
	return a, nil
}

// make is open, but creates a missing authority.
func (c *Certificates) make(ctx context.Context) (*Authority, error) {
	a, err := c.open()
	if a != nil || err != nil {
		return a, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.authority == nil {
		if c.authority, err = MakeAuthority(c.o.Dir, c.o.Now()); err != nil {
			return nil, err
		}
		step.Say(ctx, "made an authority, whose key is in %s: keep a copy of that file: every later deployment needs it", filepath.Join(c.o.Dir, authorityFile))
	}
	return c.authority, nil
}

// Renew requests that the steps of later runs, even if this one is interrupted, renew every
// certificate that the authority made before now. A dry run requests nothing. The operator's own
// certificates are not renewed.
func Renew(o Options, dryRun bool) error {
	if o.CAFile != "" {
		return errors.New("tls.ca_file: the certificates are your own: renew them where they are made, then deploy")
	}
	if _, err := OpenAuthority(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no authority yet\nhint: set tls: true for redis or mongodb in the inventory; go tool mage deploy", o.Dir)
	} else if err != nil {
		return err
	}
	if dryRun {
		return nil
	}
	return atomicfile.Write(filepath.Join(o.Dir, renewFile), []byte(time.Now().UTC().Format(time.RFC3339Nano)+"\n"), 0o600)
}

// asked returns when a renewal was last requested.
func (c *Certificates) asked() (time.Time, error) {
	path := filepath.Join(c.o.Dir, renewFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c.o.Renew, nil
	} else if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text)))
	if err != nil {
		return at, fmt.Errorf("%s: %w\nhint: remove the file, or write a time such as 2026-11-22T10:00:00Z", path, err)
	}
	if now := c.o.Now(); at.After(now) { // whatever is made now would be too old for it
		return at, fmt.Errorf("%s: a renewal was asked for at %s, and the clock of this machine says %s\nhint: set the clock if it is behind; if it was ahead, go tool mage certificates:renew asks again", path,
			at.UTC().Format(time.DateTime), now.UTC().Format(time.DateTime))
	}
	if c.o.Renew.After(at) {
		at = c.o.Renew
	}
	return at, nil
}

// given returns the operator's own: the authority, and certificate and key of a host.
func (c *Certificates) given(ctx context.Context, host string, names []string) (ca, pair string, err error) {
	var texts [3]string
	for i, path := range []string{c.o.CAFile, c.o.KeyFile, c.o.CertFile} {
		text, err := os.ReadFile(strings.ReplaceAll(path, "{host}", host))
		if err != nil {
			return "", "", fmt.Errorf("tls: %w", err)
		}
		texts[i] = strings.TrimRight(string(text), "\n") + "\n"
	}
	ca, pair = texts[0], texts[1]+texts[2]
	if texts[1] == texts[2] {
		pair = texts[1]
	}
	certFile := strings.ReplaceAll(c.o.CertFile, "{host}", host)
	leaf, err := leafOf(pair)
	if err != nil {
		return "", "", fmt.Errorf("tls: %s: %w", certFile, err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return "", "", fmt.Errorf("tls.ca_file: %s: it holds no certificate in PEM", c.o.CAFile)
	}
	between.AppendCertsFromPEM([]byte(pair))
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if len(names) == 0 {
		usage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: c.o.Now(), KeyUsages: usage}); err != nil {
		return "", "", fmt.Errorf("tls: %s: %w\nhint: want a certificate of the authority in %s, for servers and clients (serverAuth, clientAuth)", certFile, err, c.o.CAFile)
	}
	for _, name := range names {
		if err := leaf.VerifyHostname(bracketed(name)); err != nil {
			return "", "", fmt.Errorf("tls: %s: %w\nhint: the certificate of a server needs every name and address that it is called by: %s", certFile, err, strings.Join(names, ", "))
		}
	}
	if left := leaf.NotAfter.Sub(c.o.Now()); left < 30*24*time.Hour {
		step.Warn(ctx, "%s ends at %s: put another one there, and deploy", certFile, leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	return ca, pair, nil
}

// Client returns the configuration with which the toolkit calls a server of a host, through that host.
func (c *Certificates) Client(ctx context.Context, host string) (*tls.Config, error) {
	var ca, pair string
	var err error
	if c.own() {
		ca, pair, err = c.given(ctx, host, nil)
	} else {
		var a *Authority
		if a, err = c.make(ctx); err == nil {
			ca = a.PEM
			pair, err = a.Issue("urifilter toolkit", nil, c.o.Now(), 24*time.Hour)
		}
	}
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair([]byte(pair), []byte(pair))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
