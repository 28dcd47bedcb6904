package bitmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/filterjson"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
)

// local is this process with the store open.
type local struct {
	cfg    configs.Config
	store  engine.Store
	link   *backup.Link
	engine *engine.Engine
	backup *backup.Copier
	had    map[string]bool // filters before ensure
	stop   func()          // following what daemons do in a store that they share
}

// openLocal opens the store. With want it may make the data directory, and reconciles
// these filters with the archive; otherwise it leaves the store as it is.
func openLocal(ctx context.Context, cfg configs.Config, want []engine.Spec, errOut io.Writer) (_ storeAccess, err error) {
	if cfg.Store == "embedded" {
		if _, err := os.Stat(cfg.DataDir); err != nil && (want == nil || !errors.Is(err, os.ErrNotExist)) {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		if err := becomeOwner(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l := &local{cfg: cfg}
	if l.link, err = archiveOf(cfg, log); err != nil {
		return nil, err
	}
	if l.store, err = server.OpenStore(ctx, cfg, log); err != nil {
		return nil, err
	}
	settings := engine.Settings{Log: log, Archive: l.link}
	for _, spec := range want {
		if spec.HasBitMap() { // the archive has no others: ensure makes them
			settings.Filters = append(settings.Filters, spec)
		}
	}
	if l.engine, err = engine.Open(ctx, l.store, settings); err != nil {
		return nil, errors.Join(err, l.store.Close())
	}
	follow, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { l.engine.Follow(follow) })
	l.stop = func() { stop(); work.Wait() }
	l.backup = backup.New(l.engine, l.link, prometheus.NewRegistry(), log)
	if want == nil {
		return l, nil
	}
	l.had = map[string]bool{}
	for _, f := range l.engine.Filters() {
		l.had[f.Name] = true
	}
	if err := l.engine.Reconcile(ctx); err != nil && (errors.Is(err, archive.ErrUnreachable) || ctx.Err() != nil) {
		return nil, errors.Join(err, l.close())
	}
	return l, nil // ensure says of each filter what is in its way
}

func (l *local) ensure(ctx context.Context, spec engine.Spec) (done string, archived bool, err error) {
	f, err := l.engine.Lookup(spec.Name)
	if !spec.HasBitMap() && errors.As(err, new(*engine.UnknownFilterError)) {
		_, _, err := l.engine.Create(ctx, spec)
		return "created", false, err
	}
	if err != nil {
		return "", false, err
	}
	archived = !f.Stats().LastWriteback.IsZero()
	switch {
	case l.had[spec.Name]:
		return "unchanged", archived, nil
	case archived:
		return "restored", true, nil
	}
	return "created", false, nil
}

func (l *local) describe() string {
	if l.cfg.Store == "redis" {
		return "opening the store in redis: no daemon answers at " + l.cfg.URL()
	}
	return "opening " + l.cfg.DataDir + ": no daemon has it"
}

func (l *local) filters(context.Context) (client.FilterList, error) {
	var all []client.FilterInfo
	for _, f := range l.engine.Filters() {
		info, err := filterjson.Info(f)
		if err != nil {
			return client.FilterList{}, err
		}
		all = append(all, info)
	}
	list := client.FilterList{Filters: all}
	for _, q := range l.engine.Quarantined() {
		list.Quarantined = append(list.Quarantined, client.QuarantinedFilter{ID: q.ID, Name: q.Name, Reason: q.Cause.Error()})
	}
	return list, nil
}

func (l *local) writeback(ctx context.Context, name string, p archive.Progress) (client.CopyResult, error) {
	done, err := l.backup.Writeback(ctx, name, p)
	if errors.As(err, new(*engine.RestoringError)) && len(l.engine.Filters()) == 0 { // nobody restores it
		err = &engine.UnknownFilterError{Ref: name}
	}
	return copyResult(done), err
}

func (l *local) restore(ctx context.Context, name, version string, p archive.Progress) (client.CopyResult, error) {
	done, err := l.backup.Restore(ctx, name, version, p)
	return copyResult(done), err
}

func copyResult(d backup.Copy) client.CopyResult {
	return client.CopyResult{Filter: d.Filter, Version: d.Version, Generation: d.Generation, Bytes: d.Bytes,
		Uploaded: d.Uploaded, ItemsEstimate: d.Items, TookSeconds: d.Took.Seconds()}
}

func (l *local) close() error {
	l.backup.Stop()
	l.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(l.store.Close(), l.link.Close(ctx))
}
