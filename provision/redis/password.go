package redis

import (
	"context"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
)

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
