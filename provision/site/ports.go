package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/cr-clawer/urifilter/provision/inventory"
)

// listener is a port that something on a host will listen on.
type listener struct {
	what      string // "redis.port", "listen of uridownloader"
	port      int
	addresses []string // nil: all
}

// CheckPorts returns an error if two of the servers and programs of a host would listen on the
// same port: the second of them would not start, after all of the changes before it.
func (s *Site) CheckPorts(ctx context.Context, h inventory.Host) error {
	var failed []error
	all := s.listeners(ctx, h)
	for n, a := range all {
		for _, b := range all[:n] {
			if a.port != 0 && a.port == b.port && overlap(a.addresses, b.addresses) {
				failed = append(failed, fmt.Errorf("host %s: port %d is that of %s and of %s: want two\nhint: give one of them another port in %s", h.Name, a.port, b.what, a.what, s.Inventory.From()))
			}
		}
	}
	return errors.Join(failed...)
}

func overlap(a, b []string) bool {
	return a == nil || b == nil || slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// listeners leaves out what is reported elsewhere as wrong.
func (s *Site) listeners(ctx context.Context, h inventory.Host) []listener {
	var all []listener
	server := func(key string, port int, bind []string) {
		all = append(all, listener{key, port, append([]string{"127.0.0.1"}, bind...)})
	}
	if h.Has(inventory.RoleRedis) {
		if o, err := s.redisOptions(h); err == nil {
			server("redis.port", o.Port, o.Bind)
			if s.Inventory.Redis.TLS {
				server("redis.tls_port", s.Inventory.Redis.TLSPort, o.Bind)
			}
		}
	}
	if h.Has(inventory.RoleMySQL) {
		if o, err := s.mysqlOptions(h); err == nil {
			server("mysql.port", o.Port, o.Bind)
		}
	}
	if h.Has(inventory.RoleMongoDB) {
		if o, err := s.mongoOptions(h); err == nil {
			server("mongodb.port", o.Port, o.Bind)
		}
	}
	for _, p := range s.Programs {
		if !slices.ContainsFunc(p.Roles, h.Has) {
			continue
		}
		on := s.On(h, p)
		values, err := s.Settings(ctx, h, on, true)
		if err != nil {
			continue
		}
		told, err := values.Read(on)
		if err != nil {
			continue
		}
		own := func(key, at string) {
			if name, text, err := net.SplitHostPort(at); err == nil {
				port, _ := strconv.Atoi(text) // checked with the settings
				all = append(all, listener{key + " of " + p.Name, port, listenedOn(name)})
			}
		}
		own("listen", told.Listen)
		for _, key := range slices.Sorted(maps.Keys(told.More)) {
			own(key, told.More[key])
		}
	}
	return all
}

// listenedOn returns the addresses that a program listens on; nil: all of the host's.
func listenedOn(name string) []string {
	if name == "localhost" {
		return []string{"127.0.0.1"}
	}
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		return nil
	}
	return []string{name}
}
