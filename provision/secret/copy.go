package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ErrNoPassword means that a server, or a host for its callers, has no password yet.
var ErrNoPassword = errors.New("no password yet")

// PasswordFile is the step that writes the password of a server, such as Redis, into a file on a
// host whose program calls the server. password is that of Copy.
func PasswordFile(server, path, group string, password func(ctx context.Context) (string, error)) step.Wish {
	name := strings.ToLower(server)
	return Copy(name+": password for the daemon", path, group, func(ctx context.Context) (string, error) {
		text, err := password(ctx)
		if errors.Is(err, ErrNoPassword) {
			err = fmt.Errorf("%w on the %s host\nhint: go tool mage install:%s", ErrNoPassword, server, name)
		}
		return text, err
	})
}

// Copy is the step that writes a secret of another host into a file, for root and group alone. get is called in each
// look; "" means that there shall be no secret, and an ErrNoPassword that it is made before the step's turn: a plan
// accepts that.
func Copy(title, path, group string, get func(ctx context.Context) (string, error)) step.Wish {
	return step.NewWish(title, func(ctx context.Context, h host.Host) (*step.Change, error) {
		change := &step.Change{Summary: "write " + path}
		text, lacks := get(ctx)
		switch {
		case errors.Is(lacks, ErrNoPassword):
			change.Apply = func(context.Context) error { return lacks }
			return change, nil
		case lacks != nil || text == "":
			return nil, lacks
		case strings.ContainsAny(text, "\r\n"):
			return nil, fmt.Errorf("%s: it has a line end in it, which no file of a password can hold", title)
		}
		wish := host.File{Path: path, Content: text + "\n", Mode: 0o640, Group: group}
		now, _, err := host.ReadFile(ctx, h, path)
		if err != nil || wish.Same(now) {
			return nil, err
		}
		change.Apply = func(ctx context.Context) error {
			err := host.WriteFile(ctx, h, wish)
			if failed, is := errors.AsType[*host.CommandError](err); is && strings.Contains(failed.Output.Stderr, "invalid group") {
				err = fmt.Errorf("%w\nhint: go tool mage install:env", err)
			}
			return err
		}
		return change, nil
	})
}
