package site

import (
	"slices"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Paths on a host of the certificate with which a program calls Redis and the archive.
func authority(p program.Program) string { return p.ConfigDir() + "/tls.ca.pem" }
func pair(p program.Program) string      { return p.ConfigDir() + "/tls.pem" }

// certificate returns the step for a server on a host, with every name by which it is called.
func (s *Site) certificate(h inventory.Host, bind []string) func(pki.Place) step.Step {
	var names []string
	for _, name := range slices.Concat([]string{"127.0.0.1", "localhost", h.Address, s.reached(h)}, bind) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return func(p pki.Place) step.Step { return s.certs.Step(p, h.Name, names) }
}

// Certified reports whether a program on a host calls a server of the inventory over TLS.
func (s *Site) Certified(h inventory.Host, p program.Program) bool {
	inv := s.Inventory
	given, err := s.given(h, p)
	return s.Shares(h, p) && inv.Redis.TLS || err == nil && p.Servers.MongoDB && inv.MongoDB.TLS && s.mongo != nil && !given.Has("mongodb.uri")
}

// CallingCard is the step that brings that certificate to the host. The daemon picks up a
// renewed one by itself.
func (s *Site) CallingCard(h inventory.Host, p program.Program, group string) step.Wish {
	place := pki.Place{Name: "settings: certificate", CA: authority(p), Pair: pair(p), Group: pki.As(group)}
	return s.certs.Step(place, h.Name, nil)
}
