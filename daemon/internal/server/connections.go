package server

import (
	"log/slog"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/api"
	"github.com/cr-clawer/urifilter/daemon/internal/program/connlimit"
)

// connectionLimits are those of the settings, as far as the process may have so many files
// open: a quarter is left to the store.
func connectionLimits(l configs.Limits, log *slog.Logger) connlimit.Options {
	all := l.Connections
	if most := openFiles() / 4 * 3; most > 0 && all > most {
		log.Warn("the process may not have so many files open as limits.connections asks for; raise LimitNOFILE of the service, or ulimit -n",
			"limits.connections", all, "limit", most)
		all = most
	}
	perAddress := l.ConnectionsPerAddress
	if perAddress == 0 {
		perAddress = (all + 1) / 2
	}
	return connlimit.Options{
		All: all, PerAddress: perAddress, Log: log,
		Answer: api.Overloaded("too many connections are open: see limits.connections and limits.connections_per_address of the daemon"),
	}
}
