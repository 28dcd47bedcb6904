package mysql

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// granted lists the privileges that the daemon's user needs according to docs/mysql.md.
const granted = "select, insert, update, delete, create, drop"

func config(server *mysqltest.Server) Config {
	name := server.Database(granted)
	return Config{
		Options: Options{Addr: server.Addr, User: name, Password: mysqltest.Password, Database: name},
		Log:     slog.New(slog.DiscardHandler), Durable: true,
	}
}

// elsewhere returns the kinds that are not kept in this store.
func elsewhere() (names []string) {
	for _, k := range configs.Kinds() {
		if !k.Has("store") {
			names = append(names, k.Name)
		}
	}
	return names
}

func TestConformance(t *testing.T)       { conforms(t, storetest.Run) }
func TestNoRaceConformance(t *testing.T) { conforms(t, storetest.RunLarge) }

func conforms(t *testing.T, run func(*testing.T, func(*testing.T) storetest.Opener)) {
	server := mysqltest.Start(t)
	run(t, func(t *testing.T) storetest.Opener {
		c := config(server)
		return storetest.Opener{
			Open:    func() (engine.Store, error) { return Open(context.Background(), c) },
			Refuses: elsewhere(), Elsewhere: true,
		}
	})
}
