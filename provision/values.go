package provision

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/settings"
)

// given are the settings that people wrote for a host.
func (m *machine) given() (settings.Values, error) {
	v, err := m.run.common()
	return v.Over(settings.Of(m.host.Settings, m.run.inventory.From()+", settings of host "+m.host.Name)), err
}

// archived tells whether a host's daemon has an archive.
func (m *machine) archived() bool {
	given, err := m.given()
	inv := m.run.inventory
	return err == nil && (given.Has("mongodb.uri") || inv.MongoDB.External() || len(inv.With(inventory.RoleMongoDB)) > 0)
}

// shares tells whether a host's daemon keeps its bit-maps in the Redis of the role.
func (m *machine) shares() bool {
	given, err := m.given()
	return err == nil && m.run.redis != nil && !given.Has("store", "redis.addrs")
}

// common are the settings that people wrote for all hosts.
func (t *Toolkit) common() (settings.Values, error) {
	var v settings.Values
	if file := t.inventory.SettingsFile; file != "" {
		var err error
		if v, err = settings.ReadFile(file); err != nil {
			return v, err
		}
	}
	return v.Over(settings.Of(t.inventory.Settings, t.inventory.From()+", settings")), nil
}

// values are the settings for a host: what people wrote, and what follows from roles.
// early takes a password of the archive that has not been made yet.
func (r *run) values(ctx context.Context, h inventory.Host, early bool) (settings.Values, error) {
	m := r.machine(h)
	v, err := m.given()
	if err != nil {
		return v, err
	}
	var failed []error
	set := func(key string, to any, from string) {
		if !v.Has(key) {
			failed = append(failed, v.Set(key, to, from))
		}
	}
	certified := func(section, from string) {
		set(section+"tls", true, from)
		set(section+"tls_ca_file", daemonAuthority, from)
		set(section+"tls_cert_file", daemonPair, from)
		set(section+"tls_key_file", daemonPair, from)
	}
	if m.shares() {
		with := r.inventory.With(inventory.RoleRedis)[0]
		from := "the role redis of host " + with.Name
		set("store", "redis", from)
		port := r.inventory.Redis.Port
		if r.inventory.Redis.TLS {
			port = r.inventory.Redis.TLSPort
			certified("redis.", from)
		}
		set("redis.addrs", []string{net.JoinHostPort(seen(h, with), strconv.Itoa(port))}, from)
		set("redis.password_file", redis.PasswordPath, from)
	}
	if !v.Has("mongodb.uri") {
		uri, from, err := r.archive(ctx, h, early)
		failed = append(failed, err)
		if uri != "" {
			set("mongodb.uri", uri, from)
			if r.inventory.MongoDB.TLS {
				certified("mongodb.", from)
			}
		}
	}
	if r.tokens != nil {
		set("auth.tokens_file", settings.TokensPath, "the tokens file")
	}
	return v, errors.Join(failed...)
}

// seen is the address at which a host reaches another one.
func seen(from, to inventory.Host) string {
	if from.Name == to.Name {
		return "127.0.0.1"
	}
	return to.Address
}
