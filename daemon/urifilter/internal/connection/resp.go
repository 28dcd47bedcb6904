package connection

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// RESP is the flag of commands that call a daemon's port for Redis clients.
type RESP struct{ url string }

// Register adds the flag to a command.
func (r *RESP) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.url, "resp", "redis://127.0.0.1:6380", "`URL` of the daemon's port for Redis clients (resp.listen); rediss:// with TLS (env URIFILTER_RESP)")
}

// Options returns how the port is called, with the token of other flags. It makes no call.
func (r *RESP) Options(cmd *cobra.Command, token string) (*redis.Options, error) {
	o, err := redis.ParseURL(FlagOrEnv(cmd, "resp", r.url, "URIFILTER_RESP"))
	if err != nil {
		return nil, command.UsageError{Err: fmt.Errorf("--resp: %w%swant redis://HOST:PORT, or rediss:// with TLS", err, command.HintMark)}
	}
	if o.DB != 0 {
		return nil, command.UsageError{Err: errors.New("--resp: a daemon has no databases; want redis://HOST:PORT")}
	}
	if token != "" {
		o.Username, o.Password = "", token
	}
	if o.TLSConfig != nil {
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}
	o.DisableIdentity, o.DialerRetries = true, 1
	o.MaxRetries = -1 // a repeated call could do its work twice
	return o, nil
}
