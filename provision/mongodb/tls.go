package mongodb

import (
	"context"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/pki"
)

// Paths of the server's certificate.
const (
	tlsDir       = "/etc/urifilter-mongodb-tls"
	tlsAuthority = tlsDir + "/ca.pem"
	tlsPair      = tlsDir + "/server.pem"
)

func (s *Server) encrypts() bool { return s.options.Certificate != nil }

// place is the place of the certificate. A running server takes a new one by a restart: the daemons
// do not need the archive for their answers, and reconnect.
func (s *Server) place() pki.Place {
	return pki.Place{
		Name: "mongodb: certificate", CA: tlsAuthority, Pair: tlsPair, Group: s.group,
		Load: func(ctx context.Context, h host.Host) error {
			if encrypted, err := s.speaksTLS(ctx, h); err != nil || !encrypted {
				return err // a later step starts it with the files
			}
			if st, err := s.state(ctx, h); err != nil || !st.Active {
				return err
			}
			return s.systemctl(ctx, h, "restart")
		},
	}
}

// group returns the group of the unit's user.
func (s *Server) group(ctx context.Context, h host.Host) (string, error) {
	script := fmt.Sprintf(`u=$(systemctl show -p User --value %s); id -gn "${u:-root}"`, host.Quote(s.unit()))
	out, err := h.Run(ctx, host.Command{Script: script, Look: true})
	if err != nil {
		return "", fmt.Errorf("%s: the group of its user: %w", s.unit(), err)
	}
	return strings.TrimSpace(out.Stdout), nil
}

// speaksTLS reports whether TLS is configured in the host's files.
func (s *Server) speaksTLS(ctx context.Context, h host.Host) (bool, error) {
	if !s.encrypts() {
		return false, nil
	}
	path := configPath
	if s.options.Flavor == FerretDB {
		path = s.dropIn()
	}
	f, _, err := host.ReadFile(ctx, h, path)
	return strings.Contains(f.Content, tlsPair), err
}

// encryption returns the TLS keys of MongoDB's file.
func (s *Server) encryption() []setting {
	if !s.encrypts() {
		return []setting{{"net.tls.mode", nil}, {"net.tls.certificateKeyFile", nil}, {"net.tls.CAFile", nil}}
	}
	return []setting{{"net.tls.mode", "requireTLS"}, {"net.tls.certificateKeyFile", tlsPair}, {"net.tls.CAFile", tlsAuthority}}
}

// ferretAddress returns the lines of FerretDB's unit: a TLS address in place of the plain one.
func (s *Server) ferretAddress() string {
	address := s.Address(true, "")
	if !s.encrypts() {
		return "Environment=FERRETDB_LISTEN_ADDR=" + address + "\n"
	}
	return "Environment=FERRETDB_LISTEN_ADDR= FERRETDB_LISTEN_TLS=" + address + "\n" +
		"Environment=FERRETDB_LISTEN_TLS_CA_FILE=" + tlsAuthority + " FERRETDB_LISTEN_TLS_CERT_FILE=" + tlsPair + " FERRETDB_LISTEN_TLS_KEY_FILE=" + tlsPair + "\n"
}
