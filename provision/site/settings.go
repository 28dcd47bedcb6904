package site

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/settings"
)

// known are settings that have been made in this run: a dozen questions about a host begin with them.
type known struct{ values sync.Map }

// whose are the settings of a program, as its command run reads them, on a host, "" for all hosts, with
// the URI of its archive, "" before roles are looked at.
type whose struct{ host, program, run, uri string }

// once returns what build has made for the same settings before. An error is not kept.
func (k *known) once(of whose, build func() (settings.Values, error)) (settings.Values, error) {
	if v, have := k.values.Load(of); have {
		return v.(settings.Values), nil
	}
	v, err := build()
	if err != nil {
		return v, err
	}
	first, _ := k.values.LoadOrStore(of, v)
	return first.(settings.Values), nil
}

// given returns the settings that people wrote for a program on a host.
func (s *Site) given(h inventory.Host, p program.Program) (settings.Values, error) {
	return s.wrote.once(whose{host: h.Name, program: p.Name, run: p.Run}, func() (settings.Values, error) {
		v, err := s.common(p)
		_, prefix := s.Inventory.Own(p.Section)
		return v.Over(settings.Of(h.Own(p.Section).Settings, s.Inventory.From()+", "+prefix+"settings of host "+h.Name)), err
	})
}

// common returns the settings that people wrote for a program on all hosts.
func (s *Site) common(p program.Program) (settings.Values, error) {
	return s.wrote.once(whose{program: p.Name, run: p.Run}, func() (v settings.Values, err error) {
		own, prefix := s.Inventory.Own(p.Section)
		if file := own.SettingsFile; file != "" {
			if v, err = settings.ReadFile(p, file); err != nil {
				return v, err
			}
		}
		return v.Over(settings.Of(own.Settings, s.Inventory.From()+", "+prefix+"settings")), nil
	})
}

// Settings returns those of a program for a host: what people wrote, and what follows from
// roles. early accepts a password of the archive that has not been made yet.
func (s *Site) Settings(ctx context.Context, h inventory.Host, p program.Program, early bool) (settings.Values, error) {
	v, err := s.given(h, p)
	if err != nil {
		return v, err
	}
	var uri, from string
	var failed error
	if p.Servers.MongoDB && !v.Has("mongodb.uri", "mongodb.uri_file") {
		uri, from, failed = s.archive(ctx, h, early)
	}
	v, err = s.made.once(whose{h.Name, p.Name, p.Run, uri}, func() (settings.Values, error) { return s.withRoles(ctx, h, p, v, uri, from) })
	return v, errors.Join(failed, err)
}

// withRoles returns the settings v that people wrote, and those that follow from roles; uri is that of
// the archive, for the reason from.
func (s *Site) withRoles(ctx context.Context, h inventory.Host, p program.Program, v settings.Values, uri, from string) (settings.Values, error) {
	var failed []error
	set := func(key string, to any, from string) {
		if !v.Has(key) {
			failed = append(failed, v.Set(key, to, from))
		}
	}
	certified := func(section, from string) {
		set(section+"tls", true, from)
		set(section+"tls_ca_file", authority(p), from)
		set(section+"tls_cert_file", pair(p), from)
		set(section+"tls_key_file", pair(p), from)
	}
	if s.Shares(h, p) {
		with := s.Inventory.With(inventory.RoleRedis)[0]
		from := "the role redis of host " + with.Name
		if p.Servers.Store == "redis" {
			set("store", "redis", from)
		}
		port := s.Inventory.Redis.Port
		if s.Inventory.Redis.TLS {
			port = s.Inventory.Redis.TLSPort
			certified("redis.", from)
		}
		set("redis.addrs", []string{net.JoinHostPort(s.seen(h, with), strconv.Itoa(port))}, from)
		set("redis.password_file", PasswordPath(p), from)
	}
	if s.SharesMySQL(h, p) {
		with := s.Inventory.With(inventory.RoleMySQL)[0]
		from := "the role mysql of host " + with.Name
		set("mysql.addr", net.JoinHostPort(s.seen(h, with), strconv.Itoa(s.Inventory.MySQL.Port)), from)
		set("mysql.password_file", mysqlPasswordPath(p), from)
	}
	if uri != "" {
		if p.Servers.Store == "mongodb" {
			set("store", "mongodb", from)
		}
		set("mongodb.uri", uri, from)
		if s.Inventory.MongoDB.TLS {
			certified("mongodb.", from)
		}
	}
	if s.AsksFilter(h, p) {
		at, with, tokens, err := s.filterOf(ctx, h)
		failed = append(failed, err)
		from := "the role filter of host " + with.Name
		if err == nil {
			set("filter.url", at, from)
		}
		if tokens {
			set("filter.token_file", filterTokenPath(p), from)
		}
	}
	if s.Tokens[p.Name] != nil && len(p.Scopes) > 0 {
		set("auth.tokens_file", settings.TokensPath(p), "the tokens file")
	}
	return v, errors.Join(failed...)
}

// Needs returns the packages that the settings of a program require on a host.
func (s *Site) Needs(h inventory.Host, p program.Program) []string {
	given, err := s.given(h, p)
	if err != nil {
		return nil // reported where the settings are made
	}
	// The error is ignored: roles fill in what is missing, and faults are reported there.
	read, _ := given.Read(p)
	return read.Packages
}
