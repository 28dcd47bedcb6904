package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ErrNoPassword means that a server has no password yet.
var ErrNoPassword = errors.New("no password yet")

// PasswordFile is the step that writes the password of a server, such as Redis, into a file on a
// host whose program calls the server, for root and group alone. password is called in each look;
// in a plan of what does not exist yet, it may return ErrNoPassword.
func PasswordFile(server, path, group string, password func(ctx context.Context) (string, error)) step.Wish {
	return step.NewWish(strings.ToLower(server)+": password for the daemon", func(ctx context.Context, h host.Host) (*step.Change, error) {
		change := &step.Change{Summary: "write " + path}
		text, err := password(ctx)
		if errors.Is(err, ErrNoPassword) {
			change.Apply = func(context.Context) error {
				return fmt.Errorf("%w on the %s host\nhint: go tool mage install:%s", ErrNoPassword, server, strings.ToLower(server))
			}
			return change, nil
		}
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("%s: the password has a line end in it, which no file of a password can hold", strings.ToLower(server))
		}
		wish := host.File{Path: path, Content: text + "\n", Mode: 0o640, Group: group}
		now, _, err := host.ReadFile(ctx, h, path)
		if err != nil || wish.Same(now) {
			return nil, err
		}
		change.Apply = func(ctx context.Context) error { return host.WriteFile(ctx, h, wish) }
		return change, nil
	})
}
