package mysql

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// service enables and starts the server, and restarts one that runs with other settings than its files.
func (s *Server) service() step.Wish {
	return step.Running("mysql: service", unit, s.differing, func(ctx context.Context, h host.Host, verb string) error {
		return host.Systemctl(ctx, h, verb, unit+".service")
	})
}

// differing says how the running server differs from our file, "" if it does not.
func (s *Server) differing(ctx context.Context, h host.Host) (string, error) {
	got, err := sql(ctx, h, "select concat_ws(' ', coalesce(@@bind_address, '*'), @@port, @@innodb_flush_log_at_trx_commit)", false)
	if err != nil {
		return "", fmt.Errorf("MariaDB does not answer root at its socket: %w%s", err, host.UnitLog(ctx, h, unit+".service"))
	}
	if want := fmt.Sprintf("%s %d 1", s.bind(), s.options.Port); got != want {
		return fmt.Sprintf("bind_address, port and innodb_flush_log_at_trx_commit are %s, not %s", got, want), nil
	}
	return "", nil
}

// proof logs in as daemons do.
func (s *Server) proof() step.Proof {
	return step.NewProof("mysql: answers", func(ctx context.Context, h host.Host) error {
		if differ, err := s.differing(ctx, h); err != nil {
			return err
		} else if differ != "" {
			return fmt.Errorf("MariaDB: %s, whatever %s says\nhint: something else sets it: look for it in /etc/mysql", differ, settingsPath)
		}
		if why, err := s.login(ctx, h); err != nil {
			return err
		} else if why != "" {
			return fmt.Errorf("MariaDB: %s", why)
		}
		return nil
	})
}
