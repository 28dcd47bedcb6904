package environment

import (
	"context"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// CallerToken is the file, in the daemon's settings folder, with the token of another program that
// calls it.
func CallerToken(caller string) string { return caller + ".token" }

// token makes the token of a caller in a file of the settings folder.
func (o Options) token(of, name string) step.Wish {
	path := o.Program.ConfigDir() + "/" + name
	return step.NewWish("environment: "+of+" token", func(ctx context.Context, h host.Host) (*step.Change, error) {
		f, there, err := host.ReadFile(ctx, h, path)
		if err != nil {
			return nil, err
		}
		owner := "root:" + o.Group
		right := f.Mode == 0o640 && f.Owner+":"+f.Group == owner
		switch {
		case there && secret.IsDrawn(f.Content) && right:
			return nil, nil
		case there && secret.IsDrawn(f.Content):
			return &step.Change{Summary: fmt.Sprintf("let only %s read %s", owner, path), Apply: func(ctx context.Context) error {
				_, err := h.Run(ctx, host.Command{Script: fmt.Sprintf("chown %s %s && chmod 0640 %[2]s", host.Quote(owner), host.Quote(path)), Root: true})
				return err
			}}, nil
		}
		return &step.Change{Summary: "make " + path, Apply: func(ctx context.Context) error {
			file := secret.File{Path: path, Temporary: path + ".XXXXXX", Owner: owner, Mode: "0640"}
			_, err := h.Run(ctx, host.Command{Script: file.Script(), Root: true, Secret: true})
			return err
		}}, nil
	})
}

// OperatorToken reads the token in a file, with which the host's own jobs call a daemon: the
// monthly writeback and the toolkit's health check; "" if it does not exist yet.
func OperatorToken(ctx context.Context, h host.Host, path string) (string, error) {
	token, err := secret.Read(ctx, h, path, "remove the file and run `go tool mage install:env`, which makes another")
	if errors.Is(err, secret.ErrNoPassword) {
		return "", nil
	}
	return token, err
}
