package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/step"
)

func (p product) authority() string   { return p.folder + "/urifilter.ca.pem" }
func (p product) certificate() string { return p.folder + "/urifilter.pem" }

// place returns where the server has its certificate. A running server accepts another one
// by CONFIG SET, without a restart.
func (s *Server) place() pki.Place {
	return pki.Place{
		Name: "redis: certificate", CA: s.product.authority(), Pair: s.product.certificate(), Group: pki.As(s.product.group),
		Load: func(ctx context.Context, h host.Host) error {
			st, err := s.inspect(ctx, h)
			if err != nil || !st.Active || st.tlsPort == 0 {
				return err // the step "redis: service" starts it with the files
			}
			_, err = s.client(h, st).send(ctx, "CONFIG SET tls-ca-cert-file "+quoteArg(s.product.authority()), "CONFIG SET tls-cert-file "+quoteArg(s.product.certificate()))
			if err != nil {
				return fmt.Errorf("%s does not take the certificate: %w\nhint: systemctl restart %s on the host does; its log says why", s.product.name, err, s.product.unit)
			}
			return nil
		},
	}
}

// cliTLS returns the arguments with which redis-cli calls the server with the server's certificate.
func (s *Server) cliTLS() string {
	return fmt.Sprintf(" --tls --cacert %s --cert %s --key %[2]s", s.product.authority(), s.product.certificate())
}

// plainPort returns the port for connections without TLS, 0 for none. If daemons may use it,
// it stays open until ClosePlain.
func (s *Server) plainPort(st state) int {
	if s.options.TLSPort == 0 {
		return s.options.Port
	}
	port, err := strconv.Atoi(last(st.ours, "port"))
	if err != nil || s.closing {
		return 0
	}
	return port
}

// encryption returns the directives for TLS.
func (s *Server) encryption(st state) []directive {
	switch {
	case s.options.TLSPort != 0:
		return []directive{
			{"tls-port", strconv.Itoa(s.options.TLSPort)},
			{"tls-auth-clients", "yes"},
			{"tls-ca-cert-file", s.product.authority()},
			{"tls-cert-file", s.product.certificate()},
			{"tls-key-file", s.product.certificate()},
		}
	case last(st.ours, "tls-port") != "":
		return []directive{{"tls-port", "0"}} // it was set before
	}
	return nil
}

// ClosePlain returns the step after which the server speaks TLS alone. who says why it is
// too early for that: a host that still calls without TLS; "" if it is not too early.
func (s *Server) ClosePlain(who func(context.Context) (string, error)) step.Wish {
	closing := *s
	closing.closing = true
	configure := closing.configuration()
	return step.NewWish("redis: plain port", func(ctx context.Context, h host.Host) (*step.Change, error) {
		st, err := s.inspect(ctx, h)
		if err != nil {
			return nil, err
		}
		port := s.plainPort(st)
		if port == 0 {
			return nil, nil
		}
		why, err := who(ctx)
		if err != nil {
			return nil, err
		}
		if why != "" {
			step.Warn(ctx, "the plain port %d of %s stays open: %s", port, s.product.name, why)
			return nil, nil
		}
		change, err := configure.Look(ctx, h)
		if change != nil {
			change.Summary = fmt.Sprintf("close the plain port %d: every filter host calls by TLS", port)
			apply := change.Apply
			change.Apply = func(ctx context.Context) error {
				if err := apply(ctx); err != nil {
					return err
				}

				restart, err := closing.service().Look(ctx, h)
				if err != nil || restart == nil {
					return err
				}
				return restart.Apply(ctx)
			}
		}
		return change, err
	})
}
