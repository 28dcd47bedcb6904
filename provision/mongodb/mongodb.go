// Package mongodb installs the server of the archive: MongoDB on the systems that its makers
// support, with users and a password, or FerretDB, which speaks the same protocol. A server that
// others use is detected and left alone, and the series of MongoDB is never changed. It sets up
// neither replica sets nor sharded clusters: those are named in the inventory (mongodb.uri).
package mongodb

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Flavors of the server.
const (
	MongoDB  = "mongodb"
	FerretDB = "ferretdb"
)

// defaultPort is the port of MongoDB.
const defaultPort = 27017

// Options configure the server.
type Options struct {
	// Flavor is MongoDB or FerretDB; "": MongoDB.
	Flavor string
	// Version is the series of MongoDB; "": 8.0.
	Version string
	// Port to listen on; 0: 27017.
	Port int
	// Bind are addresses of the host to listen on, for other filter hosts. MongoDB listens on
	// 127.0.0.1 too; FerretDB has only one address.
	Bind []string
	// Repository provides the packages. Its Suite may contain {codename} and {os} of the host.
	// Without a URL: that of MongoDB's makers, or for FerretDB those of the host.
	Repository apt.Repository
	// Key returns the repository's key; nil: Repository.Key, or that of MongoDB's makers.
	Key func(context.Context) ([]byte, error)
	// Packages to install; nil: mongodb-org, or ferretdb.
	Packages []string
	// Bundle says that packages come from a bundle: no repository is added.
	Bundle bool
	// Unit of systemd; "": mongod, or ferretdb.
	Unit string
	// Database of the archive; "": urifilter.
	Database string
	// More are databases of other programs that the same user may write to.
	More []string
	// Certificate is the step that puts the server's certificate in a place; the server then accepts
	// only TLS clients with a certificate. Nil: no TLS.
	Certificate func(pki.Place) step.Step
	// Client returns the TLS configuration with which the toolkit calls such a server.
	Client func(ctx context.Context) (*tls.Config, error)
}

// Server is one host's server during one run.
type Server struct {
	options Options
}

var database = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// New completes options that come from a valid inventory, and refuses what no host could install.
func New(o Options) (*Server, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("mongodb."+format, args...)) }
	o = o.complete()
	if o.Flavor == MongoDB && !slices.ContainsFunc(matrix(), func(r row) bool { return r.series == o.Version }) {
		fault("version %q: want %s", o.Version, strings.Join(series(), " or "))
	}
	o.Bind, _ = address.Bind(o.Bind)
	if o.Flavor == FerretDB && len(o.Bind) > 1 {
		fault("bind: FerretDB listens on one address: want one that all filter hosts reach")
	}
	for _, name := range append([]string{o.Database}, o.More...) {
		if !database.MatchString(name) {
			fault("database %q: want letters, digits, _ and -", name)
		}
	}
	return &Server{o}, errors.Join(faults...)
}

func (o Options) complete() Options {
	o.Flavor, o.Version, o.Port = cmp.Or(o.Flavor, MongoDB), cmp.Or(o.Version, "8.0"), cmp.Or(o.Port, defaultPort)
	o.Database = cmp.Or(o.Database, "urifilter")
	unit, packages := "mongod", []string{"mongodb-org"}
	if o.Flavor == FerretDB {
		unit, packages = "ferretdb", []string{"ferretdb"}
	}
	o.Unit = strings.TrimSuffix(cmp.Or(o.Unit, unit), ".service")
	if len(o.Packages) == 0 {
		o.Packages = packages
	}
	return o
}

// Preflight proves, before anything is changed, that the host can run the server.
func (s *Server) Preflight() []step.Step {
	return []step.Step{apt.Ready(), s.fit()}
}

// Steps returns the steps that install the server, configure it, and prove that it works.
func (s *Server) Steps(packages *apt.System) []step.Step {
	steps := append(s.Preflight(), s.asked())
	if !s.options.Bundle && (s.options.Flavor == MongoDB || s.options.Repository.URL != "") {
		steps = append(steps, s.repository(packages))
	}
	steps = append(steps,
		packages.Install("mongodb: packages", s.options.Packages...),
		apt.Hold("mongodb: version", s.held()...))
	if s.encrypts() {
		steps = append(steps, s.options.Certificate(s.place()))
	}
	if s.options.Flavor == FerretDB {
		return append(steps, s.ferretListens(), s.service(), s.answers(), s.ferretWarning())
	}
	return append(steps, s.port(), s.service(), s.users(), s.configuration(), s.answers())
}

// held returns the packages to keep at their version: mongodb-org is only a metapackage.
func (s *Server) held() []string {
	if slices.Equal(s.options.Packages, []string{"mongodb-org"}) {
		return []string{"mongodb-org*"}
	}
	return s.options.Packages
}

// Address returns the server's address for daemons: on this host (local), or on another host that
// reaches this one by that address.
func (s *Server) Address(local bool, address string) string {
	switch {
	case s.options.Flavor == FerretDB && len(s.options.Bind) > 0, !local && len(s.options.Bind) == 1:
		address = s.options.Bind[0]
	case local:
		address = "127.0.0.1"
	}
	return net.JoinHostPort(address, strconv.Itoa(s.options.Port))
}

func (s *Server) unit() string { return s.options.Unit + ".service" }

func (s *Server) dropIn() string {
	return path.Join("/etc/systemd/system", s.unit()+".d", "urifilter.conf")
}
