package site

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// filterTokenPath is the path of the file that a program's filter.token_file names.
func filterTokenPath(p program.Program) string { return p.ConfigDir() + "/filter.token" }

// filter returns the filter's description, and the host whose daemon all programs ask: the
// first, because others may have filters of their own; false: there is none.
func (s *Site) filter() (program.Program, inventory.Host, bool) {
	p, known := program.Of(s.Programs, inventory.RoleFilter)
	with := s.Inventory.With(inventory.RoleFilter)
	if !known || len(with) == 0 {
		return p, inventory.Host{}, false
	}
	return p, with[0], true
}

// AsksFilter reports whether a program on a host asks a filter of the inventory.
func (s *Site) AsksFilter(h inventory.Host, p program.Program) bool {
	_, _, there := s.filter()
	given, err := s.given(h, p)
	return err == nil && p.Servers.Filter && there && !given.Has("filter.url")
}

// Callers returns the programs that ask the filter of a host, with tokens that the host makes.
func (s *Site) Callers(h inventory.Host, p program.Program) []settings.Caller {
	if _, at, _ := s.filter(); !p.Runs(inventory.RoleFilter) || at.Name != h.Name {
		return nil
	}
	var callers []settings.Caller
	for _, other := range s.Programs {
		if slices.ContainsFunc(s.with(other), func(from inventory.Host) bool { return s.AsksFilter(from, s.On(from, other)) }) {
			callers = append(callers, settings.Caller{
				Name: other.Name, Scopes: []string{"read", p.Caller}, TokenFile: p.ConfigDir() + "/" + environment.CallerToken(other.Name),
			})
		}
	}
	return callers
}

// filterOf returns where a host's filter is, and whether it requires a token.
func (s *Site) filterOf(ctx context.Context, h inventory.Host) (at string, from inventory.Host, tokens bool, err error) {
	p, from, _ := s.filter()
	values, err := s.Settings(ctx, from, p, true)
	if err != nil {
		return "", from, false, err
	}
	told, err := values.Read(p)
	if err != nil {
		return "", from, false, fmt.Errorf("settings of the filter on host %s: %w", from.Name, err)
	}
	if from.Name == h.Name {
		return told.URL, from, told.TokensFile != "", nil
	}
	if address.Loopback(told.Listen) {
		return "", from, false, fmt.Errorf("filter.url: the filter of host %s listens on %s alone, where host %s cannot ask it\nhint: settings of host %[1]s: {listen: \"0.0.0.0:8000\"}, or filter.url of a daemon that can be reached", from.Name, told.Listen, h.Name)
	}
	if err := s.elsewhere("filter.url", h, from); err != nil {
		return "", from, false, err
	}
	u, err := url.Parse(told.URL)
	if err != nil {
		return "", from, false, err
	}
	u.Host = net.JoinHostPort(s.reached(from), u.Port())
	return u.String(), from, told.TokensFile != "", nil
}

// FilterTokenFile is the step that brings the token for the filter to a host whose program
// asks it. It writes none if the filter requires none.
func (s *Site) FilterTokenFile(h inventory.Host, p program.Program, group string) step.Wish {
	return secret.Copy("settings: token for the filter", filterTokenPath(p), group, func(ctx context.Context) (string, error) {
		_, from, tokens, err := s.filterOf(ctx, h)
		if err != nil || !tokens {
			return "", err
		}
		filter, _, _ := s.filter()
		path := filter.ConfigDir() + "/" + environment.CallerToken(p.Name)
		var token string
		err = s.Visit(ctx, from, func(on host.Host) (err error) {
			token, err = environment.OperatorToken(ctx, on, path)
			return err
		})
		if err == nil && token == "" {
			err = fmt.Errorf("%w: host %s has no %s\nhint: go tool mage deploy -hosts=%[2]s makes it", secret.ErrNoPassword, from.Name, path)
		}
		if err == nil {
			s.Masker.Add(token)
		}
		return token, err
	})
}
