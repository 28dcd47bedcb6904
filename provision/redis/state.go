package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
)

// state is what a host has.
type state struct {
	main, settings, secret, dropIn host.File
	installed                      bool // the distribution's file exists
	made                           bool // our password exists
	lines                          []line
	ours                           []line // of our file, if it is included
	include                        int    // index of the line that includes our file, -1 for none

	host.Unit

	password string // the one to use, "" if none is known
	own      bool   // the password is ours
	port     int    // on which the running server listens; 0: not without TLS
	tlsPort  int    // the same with TLS, by our file; 0: not with TLS
}

// inspect reads the host's files and the state of the unit. It refuses servers with a setup
// that is not ours to change.
func (s *Server) inspect(ctx context.Context, h host.Host) (state, error) {
	st := state{include: -1}
	files, err := host.ReadFiles(ctx, h, s.product.main, s.product.settings(), s.product.secret(), s.product.dropIn())
	if err != nil {
		return st, err
	}
	st.main, st.installed = files[s.product.main]
	st.settings = files[s.product.settings()]
	st.secret, st.made = files[s.product.secret()]
	st.dropIn = files[s.product.dropIn()]
	if st.lines, err = parseConf(s.product.main, st.main.Content); err != nil {
		return st, err
	}
	st.include = included(st.lines, s.product.settings())
	if st.include >= 0 {
		if st.ours, err = parseConf(s.product.settings(), st.settings.Content); err != nil {
			return st, err
		}
	}
	if err := s.understood(st); err != nil {
		return st, err
	}
	if err := s.passwordOf(&st); err != nil {
		return st, err
	}
	st.Unit, err = host.LookAtUnit(ctx, h, s.product.unit+".service")
	return st, err
}

// understood refuses setups that the toolkit does not make.
func (s *Server) understood(st state) error {
	elsewhere := "\nhint: name that server in the settings (redis.addrs, redis.password_file) and take the role redis off this host"
	for _, l := range st.lines {
		switch {
		case l.key == "replicaof" || l.key == "slaveof":
			return fmt.Errorf("%s:%d: this server is a replica%s", s.product.main, l.number, elsewhere)
		case l.key == "cluster-enabled" && l.value() == "yes":
			return fmt.Errorf("%s:%d: this server is a member of a cluster%s", s.product.main, l.number, elsewhere)
		case l.key == "aclfile" || l.key == "user":
			return fmt.Errorf("%s:%d: this server has users of its own%s", s.product.main, l.number, elsewhere)
		case l.key == "rename-command" && len(l.args) > 0 && strings.EqualFold(l.args[0], "config"):
			return fmt.Errorf("%s:%d: the command CONFIG is renamed, by which the toolkit looks at a server and changes it%s", s.product.main, l.number, elsewhere)
		}
	}
	return s.overridden(st)
}

// passwordOf finds the password and the port of the server in its files.
func (s *Server) passwordOf(st *state) error {
	lines := append(append([]line{}, st.lines...), st.ours...)
	st.port = 6379
	if port, err := strconv.Atoi(last(lines, "port")); err == nil {
		st.port = port
	}
	st.tlsPort, _ = strconv.Atoi(last(st.ours, "tls-port")) // "": 0
	if st.port == 0 && st.tlsPort == 0 {
		return fmt.Errorf("%s: port 0: this server listens on a socket alone, which is not supported", s.product.main)
	}
	st.own = true
	if st.made {
		secret, err := parseConf(s.product.secret(), st.secret.Content)
		if err != nil {
			return err
		}
		if st.password = last(secret, "requirepass"); st.password == "" {
			return fmt.Errorf("%s: it holds no password\nhint: remove the file, and another is made", s.product.secret())
		}
		return nil
	}
	if st.password = last(st.lines, "requirepass"); st.password != "" {
		st.own = false
	}
	return nil
}

func (s *Server) client(h host.Host, st state) client {
	c := client{host: h, cli: s.product.cli, port: st.port, password: st.password}
	if st.tlsPort != 0 {
		c.port, c.tls = st.tlsPort, s.cliTLS()
	}
	return c
}

// mayTake says why a server that we have not set up yet is not ours to take.
func (s *Server) mayTake(ctx context.Context, h host.Host, st state) error {
	if s.options.Adopt || st.include >= 0 || !st.Active {
		return nil
	}
	const next = "\nhint: give the filters a server of their own (role redis on another host), or name this one in the settings (redis.addrs, redis.password_file), or let the toolkit take it over with redis.adopt in the inventory"
	if !st.own {
		return fmt.Errorf("%s has a password that the toolkit has not set (requirepass in %s): others use it%s", s.product.name, s.product.main, next)
	}
	what, err := s.client(h, st).foreign(ctx)
	var auth errAuth
	switch {
	case errors.As(err, &auth):
		return fmt.Errorf("%s asks for a password that the toolkit does not know (%s)%s", s.product.name, auth.said, next)
	case errors.As(err, new(errDown)):
		return nil // the step "redis: service" says so
	case err != nil:
		return fmt.Errorf("%s: %w", s.product.name, err)
	case what != "":
		return fmt.Errorf("%s holds data of other applications: %s; a password would lock them out%s", s.product.name, what, next)
	}
	return nil
}

// startAsItIs starts a server that is down. It is mayTake for one that we have not set up: only now it tells whose data
// it has. One of others is stopped again.
func (s *Server) startAsItIs(ctx context.Context, h host.Host, st state) error {
	if err := s.systemctl(ctx, h, "start"); err != nil {
		return err
	}
	if s.options.Adopt || st.include >= 0 {
		return nil // it is ours already
	}
	st.Active = true
	err := s.client(h, st).ready(ctx)
	if err == nil || errors.As(err, new(errAuth)) { // which mayTake explains
		err = s.mayTake(ctx, h, st)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.systemctl(context.WithoutCancel(ctx), h, "stop"))
}

// Password reads the server's password from its host, or returns secret.ErrNoPassword.
func (s *Server) Password(ctx context.Context, h host.Host) (string, error) {
	st, err := s.inspect(ctx, h)
	if err != nil {
		return "", err
	}
	if st.password == "" {
		return "", secret.ErrNoPassword
	}
	return st.password, nil
}
