package site

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
	"github.com/cr-clawer/urifilter/provision/secret"
)

// having is a host with a file of a password, or without one: "".
type having struct {
	host.Host
	password string
}

func (h having) Run(context.Context, host.Command) (host.Output, error) {
	if h.password == "" {
		return host.Output{Stdout: "0\n"}, nil
	}
	return host.Output{Stdout: "1\nregular file|9|640|root|urifilter\n" + h.password + "\n"}, nil
}

// A server is not given another password while a host that may know the one before it cannot be asked.
func TestPasswordOfALostServer(t *testing.T) {
	t.Parallel()
	away := errors.New("no route to host")
	for _, c := range []struct {
		name     string
		one, two string // their passwords; "away": they are not reached
		want     string
		err      string // "": none
	}{
		{name: "the first one knows it", one: "password", two: "away", want: "password"},
		{name: "the second one knows it", one: "away", two: "password", want: "password"},
		{name: "a first deployment", err: secret.ErrNoPassword.Error()},
		{name: "who may know it is away", two: "away", err: "two was not asked"},
		{name: "both are away", one: "away", two: "away", err: "one was not asked"},
	} {
		has := map[string]string{"one": c.one, "two": c.two}
		s := &Site{Options: Options{
			Inventory: &inventory.Inventory{Hosts: []inventory.Host{{Name: "one", Roles: []string{inventory.RoleFilter}}, {Name: "two", Roles: []string{inventory.RoleFilter}}}},
			Programs:  []program.Program{urifilter.Program()}, Masker: &secret.Masker{},
			Visit: func(_ context.Context, h inventory.Host, do func(host.Host) error) error {
				if has[h.Name] == "away" {
					return &host.ConnectionError{Host: h.Name, Err: away}
				}
				return do(having{password: has[h.Name]})
			},
		}}
		switch got, err := s.knownPassword(t.Context()); {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v", c.name, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %q, %v; want %q in it", c.name, got, err, c.err)
		}
	}
}
