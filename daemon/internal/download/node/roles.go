package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/dispatch"
	"github.com/cr-clawer/urifilter/daemon/internal/download/wake"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// look is how often a dispatcher looks for new URIs that no master in its own process has announced.
const look = time.Second

// Roles are what a process does.
type Roles struct{ Master, Dispatch, Worker bool }

// All are the roles of a process that works alone.
func All() Roles { return Roles{true, true, true} }

func (r Roles) all() bool { return r == All() }

func (r Roles) String() string {
	var names []string
	for _, role := range []struct {
		has  bool
		name string
	}{{r.Master, "master"}, {r.Dispatch, "dispatcher"}, {r.Worker, "worker"}} {
		if role.has {
			names = append(names, role.name)
		}
	}
	return strings.Join(names, " and ")
}

// address is where the process listens: a master has its own address, other roles that of the first of them.
func (r Roles) address(cfg settings.Config) string {
	switch {
	case r.Master:
		return cfg.Listen
	case r.Worker:
		return cfg.Worker.Listen
	}
	return cfg.Dispatch.Listen
}

// check refuses settings under which roles in different processes could not find each other.
func (r Roles) check(cfg settings.Config) error {
	if r.all() || !r.Master && !r.Worker || cfg.Filter.URL != "" {
		return nil
	}
	return fmt.Errorf("filter.url: \"\": a %s that is not the only process needs the URL of the urifilter daemon that all of them ask\n"+
		"hint: set filter.url (or URIDOWNLOADER_FILTER_URL) to such as http://127.0.0.1:8000, or run all roles in one process: uridownloader serve", r)
}

// turns is the name by which this process takes its turn at filters, "" if it has the store to itself.
func (n *Node) turns(owner string) string {
	if n.roles.all() && n.cfg.Store != StoreMongoDB {
		return ""
	}
	return owner
}

// openNotifier connects the process with those of other roles, if a Redis is configured.
func (n *Node) openNotifier(registry prometheus.Registerer) error {
	if !n.cfg.Redis.Given() {
		return nil
	}
	password, err := secret.Read(n.cfg.Redis.PasswordFile)
	if err != nil {
		return fmt.Errorf("redis.password_file: %w", err)
	}
	redis.SetLogger(wake.ClientLog{Log: n.log}) // go-redis has one logger for the whole process
	calls := map[wake.Whom]func(){}
	if n.dispatch != nil {
		calls[wake.Dispatchers] = n.dispatch.Wake
	}
	if n.worker != nil {
		calls[wake.Workers] = n.worker.Wake
	}
	r := n.cfg.Redis
	o := wake.Options{
		Addrs: r.Addrs, Username: r.Username, Password: password, DB: r.DB, MasterName: r.MasterName, URL: r.URL,
		Wake: calls, Log: n.log, Registry: registry,
	}
	if o.TLS, err = tlsdial.For("redis", r.CallTLS, n.log); err != nil {
		return err
	}
	n.notifier, err = wake.Open(o)
	return err
}

// wakeDispatcher tells dispatchers, in this process and in others, that they may have work.
func (n *Node) wakeDispatcher() {
	if n.dispatch != nil {
		n.dispatch.Wake()
	}
	if n.notifier != nil {
		n.notifier.Notify(wake.Dispatchers)
	}
}

// wakeWorkers notifies workers that tasks were handed out.
func (n *Node) wakeWorkers() {
	if n.worker != nil {
		n.worker.Wake()
	}
	if n.notifier != nil {
		n.notifier.Notify(wake.Workers)
	}
}

func (n *Node) dispatching(owner string, registry prometheus.Registerer) dispatch.Options {
	o := dispatch.Options{
		Store: n.store, Owner: owner, Every: n.cfg.Dispatch.Every, MaxReady: n.cfg.Dispatch.Ready, KeepLogs: n.cfg.KeepLogs,
		HandedOut: n.wakeWorkers, Ended: n.reporter.Ended, Log: n.log, Registry: registry,
	}
	if !n.roles.all() || n.cfg.Store == StoreMongoDB {
		o.Look = look
	}
	return o
}

// DispatchOnce opens the store, does one dispatcher round, sends the reports that are due, and
// closes the store.
func DispatchOnce(ctx context.Context, cfg settings.Config, log *slog.Logger) (_ dispatch.Report, err error) {
	n := &Node{cfg: cfg, roles: Roles{Dispatch: true}}
	if n.faults, log, err = openFaults(cfg.Report.DSN, n.roles, log); err != nil {
		return dispatch.Report{}, err
	}
	n.log = log
	defer func() {
		if wrong := n.end(err); err == nil {
			err = wrong
		}
	}()
	if n.store, err = openStore(ctx, cfg, n.roles, nil, log, prometheus.NewRegistry()); err != nil {
		return dispatch.Report{}, err
	}
	_, owner, err := identity()
	if err != nil {
		return dispatch.Report{}, err
	}
	if n.reporter, err = openReporter(cfg.Report, n.store, log, nil); err != nil {
		return dispatch.Report{}, err
	}
	done, err := dispatch.New(n.dispatching(owner, nil)).Once(ctx)
	n.reporter.Flush(ctx)
	return done, err
}
