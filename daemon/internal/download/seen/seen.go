// Package seen asks a filter which URIs are new before they become tasks. The filter is a
// urifilter daemon, or one that the program itself keeps on this machine.
package seen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

// Filter knows which URIs are new. It is safe for concurrent use.
type Filter interface {
	// Check says for each URI whether it is new, and remembers nothing. Of equal URIs the first is new.
	Check(ctx context.Context, filter string, uris []string) ([]bool, error)
	// Remember marks the URIs as seen.
	Remember(ctx context.Context, filter string, uris []string) error
	io.Closer
}

// UnknownError is returned for a filter that does not exist.
type UnknownError struct {
	Filter string
	Known  []string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("filter %q: unknown", e.Filter) }

// Remote is a urifilter daemon.
type Remote struct{ daemon *client.Client }

// Call makes a Remote, which owns daemon and closes it at its end.
func Call(daemon *client.Client) *Remote { return &Remote{daemon} }

func (r *Remote) Check(ctx context.Context, filter string, uris []string) ([]bool, error) {
	news, err := r.daemon.Check(ctx, filter, uris)
	return news, remoteError(filter, err)
}

func (r *Remote) Remember(ctx context.Context, filter string, uris []string) error {
	_, err := r.daemon.Filter(ctx, filter, uris)
	return remoteError(filter, err)
}

func remoteError(filter string, err error) error {
	var answer *client.Error
	if errors.As(err, &answer) && answer.ErrorCode == "unknown_filter" {
		return &UnknownError{filter, answer.Known}
	}
	return err
}

// Close closes the connections.
func (r *Remote) Close() error {
	r.daemon.Close()
	return nil
}

// firstCapacity is the number of URIs for which one of our own filters is made; it grows.
const firstCapacity = 1_000_000

// Own is a set of filters on this machine, with the default settings of urifilter.
type Own struct {
	store *embedded.Store
	judge batch.Judge
	calls sync.Pool // of *ownCall
}

type ownCall struct {
	req  items.Request
	work batch.Batch
}

// Open opens or creates the filters in a folder for a daemon, as [embedded.OpenDaemon] does. URIs are
// durable when Remember returns.
func Open(ctx context.Context, dir string, log *slog.Logger) (*Own, error) {
	return open(ctx, dir, configs.Default().Durability, log, func(o embedded.Options) (*embedded.Store, error) {
		return embedded.OpenDaemon(ctx, o, lifecycle.TellHeld(log, "opening the filter"))
	})
}

// OpenVolatile is for a command that stores the URIs itself: a power cut may lose what Remember got in
// the last second; in return no call waits for the disk.
func OpenVolatile(ctx context.Context, dir string, log *slog.Logger) (*Own, error) {
	return open(ctx, dir, "interval", log, embedded.Open)
}

func open(ctx context.Context, dir, durability string, log *slog.Logger, openStore func(embedded.Options) (*embedded.Store, error)) (_ *Own, err error) {
	d := configs.Default()
	d.URINumScale = firstCapacity
	store, err := openStore(embedded.Options{Dir: dir, Durability: durability, CheckpointBytes: int64(d.CheckpointBytes), Log: log})
	if err != nil {
		return nil, err
	}
	var specs []engine.Spec
	for _, f := range d.Specs() {
		specs = append(specs, engine.Spec(f))
	}
	e, err := engine.Open(ctx, store, engine.Settings{Filters: specs, Log: log})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	o := &Own{store: store, judge: batch.Judge{Engine: e}}
	o.judge.Observe = func(batch.Op, *engine.Filter, time.Duration, batch.Counts, error) {}
	o.calls.New = func() any { return new(ownCall) }
	return o, nil
}

func (o *Own) Check(ctx context.Context, filter string, uris []string) ([]bool, error) {
	return o.verdicts(ctx, batch.Check, filter, uris)
}

func (o *Own) Remember(ctx context.Context, filter string, uris []string) error {
	_, err := o.verdicts(ctx, batch.Add, filter, uris)
	return err
}

func (o *Own) verdicts(ctx context.Context, op batch.Op, filter string, uris []string) ([]bool, error) {
	if len(uris) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{"filter_typeid": filter, "uri_list": uris})
	if err != nil {
		return nil, err
	}
	c := o.calls.Get().(*ownCall)
	defer o.calls.Put(c)
	defer c.work.End()
	c.req.Reset()
	if err := c.req.DecodeAs(items.Plain, body, items.Limits{Items: len(uris), ItemBytes: len(body)}); err != nil {
		return nil, err
	}
	var unknown *engine.UnknownFilterError
	err = o.judge.Begin(ctx, &c.work, op, filter, batch.Expire{})
	if errors.As(err, &unknown) {
		return nil, &UnknownError{filter, unknown.Known}
	}
	if err != nil {
		return nil, err
	}
	if err := o.judge.Apply(ctx, &c.work, &c.req.List); err != nil {
		return nil, err
	}
	return slices.Clone(c.work.IsNew), nil
}

// Failed is closed when the disk has failed: the filters then refuse all URIs, and the process should
// end and be started again.
func (o *Own) Failed() <-chan struct{} { return o.store.Failed() }

// Failure is why Failed is closed.
func (o *Own) Failure() error { return o.store.Ready(context.Background()) }

// Close closes the filters.
func (o *Own) Close() error {
	o.judge.Engine.Stop()
	return o.store.Close()
}
