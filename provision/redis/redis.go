// Package redis installs a Redis, or a Valkey, that filters can trust: with a password,
// never evicting, and with an append-only file. The settings are in a file of our own,
// which the distribution's file includes at its end; no other line of that file is
// changed. A server that others use is recognised and left alone. Package redis sets up
// neither replicas nor clusters: those are named in the daemon's settings (redis.addrs).
package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Options say how to set up the server.
type Options struct {
	// Package of the distribution: redis-server or valkey-server. "": redis-server.
	Package string
	// Port to listen on; 0: 6379.
	Port int
	// Bind are addresses of the host to listen on besides 127.0.0.1, for filter hosts other
	// than this one.
	Bind []string
	// MaxMemory is the memory limit, as redis.conf writes it: "4gb". "": none.
	MaxMemory string
	// AppendFsync is everysec or always; "": everysec.
	AppendFsync string
	// Adopt takes over a server in which others have data, with their password if it has
	// one, and gives it a password if it has none.
	Adopt bool
	// Known returns the password that daemons hold for a lost server that this one replaces;
	// secret.ErrNoPassword if there is none. The daemons then need no restart, and put back what
	// they remember. It is called when a password must be made. Nil: none.
	Known func(ctx context.Context) (string, error)
	// TLSPort is the port for TLS, with clients that show a certificate; the plain Port is
	// then closed, at once if nothing has used it yet, else by ClosePlain. 0: no TLS.
	TLSPort int
	// Certificate returns the step that puts the server's certificate in a place. With TLSPort.
	Certificate func(pki.Place) step.Step
}

// product has the names that a package uses.
type product struct {
	name, pkg, unit, group string
	folder, main           string
	cli                    string
}

func products() []product {
	return []product{
		{"Redis", "redis-server", "redis-server", "redis", "/etc/redis", "/etc/redis/redis.conf", "redis-cli"},
		{"Valkey", "valkey-server", "valkey-server", "valkey", "/etc/valkey", "/etc/valkey/valkey.conf", "valkey-cli"},
	}
}

func (p product) settings() string { return p.folder + "/urifilter.conf" }
func (p product) secret() string   { return p.folder + "/urifilter.secret.conf" }
func (p product) dropIn() string {
	return "/etc/systemd/system/" + p.unit + ".service.d/urifilter.conf"
}

// Server is one host's server during one run.
type Server struct {
	options Options
	product product
	closing bool // the plain port must be closed now
}

// New completes options that come from a valid inventory.
func New(o Options) (*Server, error) {
	o.Package, o.Port, o.AppendFsync = cmp.Or(o.Package, "redis-server"), cmp.Or(o.Port, 6379), cmp.Or(o.AppendFsync, "everysec")
	i := slices.IndexFunc(products(), func(p product) bool { return p.pkg == o.Package })
	if i < 0 {
		return nil, fmt.Errorf("redis.package %q: want redis-server or valkey-server", o.Package)
	}
	o.Bind, _ = address.Bind(o.Bind)
	return &Server{options: o, product: products()[i]}, nil
}

// Package returns the name of the server's package.
func (s *Server) Package() string { return s.product.pkg }

// Steps returns the steps that install the server, set it up, and prove that it is as it must be.
func (s *Server) Steps(packages *apt.System) []step.Step {
	steps := []step.Step{
		s.asked(),
		packages.Install("redis: package", s.product.pkg),
		s.secretStep(),
		overcommit(),
	}
	if s.options.TLSPort != 0 {
		steps = append(steps, s.options.Certificate(s.place()))
	}
	return append(steps,
		s.configuration(),
		s.service(),
		s.proof(),
		hugePages(),
	)
}

// directive is one line of our file, with which the running server is also compared.
type directive struct{ key, value string }

func (s *Server) directives(st state) []directive {
	all := []directive{
		{"bind", strings.Join(append([]string{"127.0.0.1"}, s.options.Bind...), " ")},
		{"port", fmt.Sprint(s.plainPort(st))},
	}
	all = append(all, s.encryption(st)...)
	all = append(all, []directive{
		{"protected-mode", "yes"},
		{"maxmemory-policy", "noeviction"},
		{"appendonly", "yes"},
		{"appendfsync", s.options.AppendFsync},
	}...)
	if s.options.MaxMemory != "" {
		all = append(all, directive{"maxmemory", s.options.MaxMemory})
	}
	return all
}

// text returns the content of our file.
func (s *Server) text(st state) string {
	why := map[string]string{
		"bind":             "Filter hosts reach it here, and nobody else: a firewall is not ours.",
		"tls-port":         "Clients show a certificate. A plain port other than 0 is open for filter hosts that do\n# not call by TLS yet.",
		"maxmemory-policy": "An evicted bit-map is a filter that has forgotten: writes are refused instead.",
		"appendonly":       "A restart finds everything, but for what appendfsync allows; that is put back from the\n# memory of the daemons.",
		"maxmemory":        "When it is reached, writes are refused.",
	}
	var b strings.Builder
	b.WriteString("# Written by the urifilter toolkit, which rewrites it when it differs. Other settings\n# belong in " + s.product.main + ", above the line that includes this file.\n")
	for _, d := range s.directives(st) {
		if text := why[d.key]; text != "" {
			b.WriteString("\n# " + text + "\n")
		}
		b.WriteString(d.key + " " + d.value + "\n")
	}
	if st.own {
		b.WriteString("\n# The password.\ninclude " + s.product.secret() + "\n")
	}
	return b.String()
}
