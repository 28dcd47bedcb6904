package pki

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Place is the location of a program's certificate on a host.
type Place struct {
	// Name of the step.
	Name string
	// CA is the file of the authority, Pair is the file of both certificate and key, so that a
	// renewal replaces both atomically.
	CA, Pair string
	// Group may read them. It is looked up on the host, once it exists; in a plan it may be "".
	Group func(ctx context.Context, h host.Host) (string, error)
	// Load makes a running program load the files; nil: it notices itself.
	Load func(ctx context.Context, h host.Host) error
}

// As returns a Group that is known.
func As(group string) func(context.Context, host.Host) (string, error) {
	return func(context.Context, host.Host) (string, error) { return group, nil }
}

// loaded is the file that records what the program has loaded, so that the next run completes one
// that was interrupted between writing and loading.
func (p Place) loaded() string {
	return path.Dir(p.Pair) + "/." + path.Base(p.Pair) + ".loaded"
}

func digest(ca, pair string) string {
	return fmt.Sprintf("%x\n", sha256.Sum256([]byte(ca+pair)))
}

// Step puts a certificate on a host and renews it. The names are those by which a server
// is called; a client needs none.
func (c *Certificates) Step(p Place, hostName string, names []string) step.Undoer {
	return step.NewUndoer(p.Name, func(ctx context.Context, h host.Host) (*step.Change, step.Undo, error) {
		before, err := host.ReadFiles(ctx, h, p.CA, p.Pair, p.loaded())
		if err != nil {
			return nil, nil, err
		}
		why, err := c.differs(ctx, h, p, hostName, names, before)
		if err != nil || why == "" {
			return nil, nil, err
		}
		change := &step.Change{Summary: fmt.Sprintf("write %s: %s", p.Pair, why), Apply: func(ctx context.Context) error {
			return c.install(ctx, h, p, hostName, names, before)
		}}
		return change, func(ctx context.Context, h host.Host) (string, error) { return p.restore(ctx, h, before) }, nil
	})
}

// restore brings back the files, by path.
func (p Place) restore(ctx context.Context, h host.Host, before map[string]host.File) (string, error) {
	if before[p.Pair].Content == "" {
		return "", nil // there was none before; an unused one does no harm
	}
	err := errors.Join(host.Restore(ctx, h, p.CA, before[p.CA]), host.Restore(ctx, h, p.Pair, before[p.Pair]))
	if err == nil && p.Load != nil {
		err = p.Load(ctx, h)
	}
	return p.Pair + " is as it was before", err
}

// differs says why the files must be written, "" if they need not be.
func (c *Certificates) differs(ctx context.Context, h host.Host, p Place, hostName string, names []string, now map[string]host.File) (string, error) {
	ca, pair := now[p.CA].Content, now[p.Pair].Content
	if c.own() {
		wantCA, wantPair, err := c.given(ctx, hostName, names)
		if err != nil {
			return "", err
		}
		if ca != wantCA || pair != wantPair {
			return "your own", nil
		}
	} else {
		a, err := c.open()
		if err != nil {
			return "", err
		}
		if ca != "" && (a == nil || ca != a.PEM) {
			return "", fmt.Errorf("%s: it was issued by another authority than the one on this machine\nhint: bring %s from the machine that made it; to start over, remove %s and %s on each host first", p.CA, filepath.Join(c.o.Dir, authorityFile), p.CA, p.Pair)
		}
		if a == nil {
			return "a new certificate, of an authority that is made in " + c.o.Dir, nil
		}
		asked, err := c.asked()
		if err != nil {
			return "", err
		}
		if why := a.Due(pair, names, c.o.Now(), asked); why != "" {
			return "a new certificate, as " + why, nil
		}
		if ca != a.PEM {
			return "the authority", nil
		}
		if a.cert.NotAfter.Sub(c.o.Now()) < c.o.Life {
			step.Warn(ctx, "the authority in %s ends at %s: docs/operations.md, \"Replace the authority\"", c.o.Dir, a.cert.NotAfter.UTC().Format("2006-01-02"))
		}
	}
	group, err := p.Group(ctx, h)
	if err != nil {
		return "", err
	}
	for _, f := range []host.File{p.file(p.CA, ca, group), p.file(p.Pair, pair, group)} {
		if !f.Same(now[f.Path]) {
			return "its owner and mode", nil
		}
	}
	if p.Load != nil && now[p.loaded()].Content != digest(ca, pair) {
		return "it is not in use yet", nil
	}
	return "", nil
}

func (p Place) file(path, content, group string) host.File {
	return host.File{Path: path, Content: content, Mode: 0o640, Group: group}
}

// install writes the files, and has them loaded.
func (c *Certificates) install(ctx context.Context, h host.Host, p Place, hostName string, names []string, now map[string]host.File) error {
	ca, pair := "", now[p.Pair].Content
	var err error
	if c.own() {
		ca, pair, err = c.given(ctx, hostName, names)
	} else {
		var a *Authority
		if a, err = c.make(ctx); err != nil {
			return err
		}
		asked, err := c.asked()
		if err != nil {
			return err
		}
		ca = a.PEM
		if a.Due(pair, names, c.o.Now(), asked) != "" {
			if pair, err = a.Issue(hostName, names, c.o.Now(), c.o.Life); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	group, err := p.Group(ctx, h)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("[ -d %s ] || install -d -m 0750 -o root -g %s %[1]s", host.Quote(path.Dir(p.Pair)), host.Quote(group))
	if err := host.AsRoot(ctx, h, script); err != nil {
		return err
	}
	for _, f := range []host.File{p.file(p.CA, ca, group), p.file(p.Pair, pair, group)} {
		if err := host.WriteFile(ctx, h, f); err != nil {
			return err
		}
	}
	if p.Load == nil {
		return nil
	}
	if err := p.Load(ctx, h); err != nil {
		return err
	}
	return host.WriteFile(ctx, h, host.File{Path: p.loaded(), Content: digest(ca, pair)})
}
