package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/memlimit"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/store/joined"
	mysqlstore "github.com/cr-clawer/urifilter/daemon/internal/store/mysql"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// loading is what a start does, for people.
const loading = "loading filters"

// OpenStore opens the stores in the settings, for a process other than the daemon.
func OpenStore(ctx context.Context, cfg configs.Config, log *slog.Logger) (engine.Store, error) {
	allowed, _ := memlimit.Allowed()
	return openStore(ctx, cfg, cfg.Limits.Memory(allowed), false, log)
}

func openStore(ctx context.Context, cfg configs.Config, memory configs.Memory, daemon bool, log *slog.Logger) (engine.Store, error) {
	main, err := openMain(ctx, cfg, memory, daemon, log)
	if err != nil {
		return nil, err
	}
	if cfg.MySQL.Addr == "" {
		return joined.Join(main, nil, log), nil
	}
	beside, err := openMySQL(cfg, log)
	if err != nil {
		return nil, errors.Join(err, main.Close())
	}
	return joined.Join(main, beside, log), nil
}

func openMain(ctx context.Context, cfg configs.Config, memory configs.Memory, daemon bool, log *slog.Logger) (joined.Main, error) {
	if cfg.Store == "redis" {
		livesDir := "" // where a daemon leaves files that show its death once it is dead
		if daemon {
			livesDir = cfg.DataDir
		}
		return openRedis(cfg.Redis, mirrorsOf(cfg, memory), livesDir, log)
	}
	o := embedded.Options{Dir: cfg.DataDir, Durability: cfg.Durability, CheckpointBytes: int64(cfg.CheckpointBytes), Log: log}
	var store *embedded.Store
	var err error
	if daemon {
		store, err = embedded.OpenDaemon(ctx, o, lifecycle.TellHeld(log, loading))
	} else {
		store, err = embedded.Open(o)
	}
	if err != nil {
		return nil, explainOpen(err, cfg)
	}
	return store, nil
}

func openMySQL(cfg configs.Config, log *slog.Logger) (*mysqlstore.Store, error) {
	o, err := MySQLOptions(cfg.MySQL, log)
	if err != nil {
		return nil, err
	}
	return mysqlstore.Open(context.Background(), mysqlstore.Config{Options: o, Log: log, Durable: cfg.Durability == "always"})
}

// MySQLOptions returns the options for calling the MariaDB of the settings.
func MySQLOptions(c configs.MySQL, log *slog.Logger) (mysqlstore.Options, error) {
	password, err := secret.Read(c.PasswordFile)
	if err != nil {
		return mysqlstore.Options{}, fmt.Errorf("mysql.password_file: %w", err)
	}
	dialer, err := tlsdial.For("mysql", c.CallTLS, log)
	return mysqlstore.Options{Addr: c.Addr, User: c.User, Password: password, Database: c.Database, TLS: dialer}, err
}

// mirrors are the bounds on the mirrors of filters in Redis.
type mirrors struct{ all, exact uint64 }

func mirrorsOf(cfg configs.Config, memory configs.Memory) mirrors {
	// An exact filter larger than limits.filter_bytes would accept no new items.
	m := mirrors{uint64(cfg.Redis.MirrorBytes), cmp.Or(uint64(cfg.Limits.FilterBytes), memory.Filters) / 2}
	if m.all == 0 && memory.Filters > 0 {
		m.all = memory.Filters / 4 * 3 // timing filters have items beside the mirrors
		m.exact = min(cmp.Or(m.exact, budget.Unbounded), budget.Unbounded)
	}
	return m
}

func openRedis(c configs.Redis, mirrors mirrors, livesDir string, log *slog.Logger) (joined.Main, error) {
	password, err := secret.Read(c.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("redis.password_file: %w", err)
	}
	dialer, err := tlsdial.For("redis", c.CallTLS, log)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(servers.ClientLog{Log: log}) // the client has one logger for the whole process
	// Open has its own timeouts for each server.
	store, err := redisstore.Open(context.Background(), redisstore.Config{
		Options: servers.Options{
			Addrs: c.Addrs, Username: c.Username, Password: password, DB: c.DB, TLS: dialer, MasterName: c.MasterName,
			Fsync: c.Durability == "fsync", Replicas: c.Replicas,
		},
		Log:          log,
		UnackedIsNew: c.InDoubt == "new",
		MirrorBytes:  mirrors.all,
		Dir:          livesDir,

		ExactMirrorBytes: mirrors.exact,
	})
	if err != nil {
		return nil, err // not a typed nil
	}
	return store, nil
}

// resyncFrom lets a store that can lose data ask the archive for data that no live daemon knows.
func resyncFrom(store engine.Store, archive engine.Archive) {
	if joined, ok := store.(*joined.Store); ok {
		store = joined.Main()
	}
	r, ok := store.(*redisstore.Store)
	if !ok {
		return
	}
	r.RestoreWith(func(ctx context.Context, spec engine.Spec, bits engine.BitMap) error {
		newest, err := archive.Newest(ctx)
		if err != nil {
			return err
		}
		for _, a := range newest {
			switch {
			case a.Spec.Name != spec.Name:
			case a.Err != nil:
				return a.Err
			case a.Header.SameBits(bits.Header()):
				return a.Restore(ctx, bits)
			}
		}
		return nil // never written back, or dropped and re-created since
	})
}

// explainOpen adds a remedy to an error about the data directory.
func explainOpen(err error, cfg configs.Config) error {
	var inUse *disk.InUseError
	switch {
	case errors.As(err, &inUse):
		return fmt.Errorf("%w\nhint: one daemon uses a data directory at a time; stop that process, or give this one a --data-dir of its own", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w\nhint: run as the user that owns %s, or name another folder with --data-dir", err, cfg.DataDir)
	}
	return err
}
