package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ErrNoPassword is that a host's server has no password yet.
var ErrNoPassword = errors.New("no password yet")

// Password reads the server's password from its host, or returns ErrNoPassword.
func (s *Server) Password(ctx context.Context, h host.Host) (string, error) {
	st, err := s.inspect(ctx, h)
	if err != nil {
		return "", err
	}
	if st.password == "" {
		return "", ErrNoPassword
	}
	return st.password, nil
}

// PasswordFile is the step of a host with a program that calls the server: it puts the
// password into a file there, for root and group alone. password is asked in each look; it may return ErrNoPassword, in a plan of
// what is not there yet.
func PasswordFile(path, group string, password func(ctx context.Context) (string, error)) step.Wish {
	return step.NewWish("redis: password for the daemon", func(ctx context.Context, h host.Host) (*step.Change, error) {
		change := &step.Change{Summary: "write " + path}
		secret, err := password(ctx)
		if errors.Is(err, ErrNoPassword) {
			change.Apply = func(context.Context) error {
				return fmt.Errorf("%w on the Redis host\nhint: go tool mage install:redis", ErrNoPassword)
			}
			return change, nil
		}
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(secret, "\r\n") {
			return nil, errors.New("redis: the password has a line end in it, which no file of a password can hold")
		}
		wish := host.File{Path: path, Content: secret + "\n", Mode: 0o640, Group: group}
		now, _, err := host.ReadFile(ctx, h, wish.Path)
		if err != nil || wish.Same(now) {
			return nil, err
		}
		change.Apply = func(ctx context.Context) error { return host.WriteFile(ctx, h, wish) }
		return change, nil
	})
}
