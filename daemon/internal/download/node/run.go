package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
)

// Run serves until ctx ends, which is no error, or something fails. Each signal on reload makes
// it reload the tokens and the certificate.
func (n *Node) Run(ctx context.Context, reload <-chan os.Signal) (err error) {
	defer n.stopping.Disarm()
	defer func() { err = errors.Join(err, n.end(err)) }()
	inner, cancel := context.WithCancelCause(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	if n.dispatch != nil {
		work.Go(func() { n.dispatch.Run(inner) })
		work.Go(func() { n.reporter.Run(inner) })
	}
	if n.worker != nil {
		work.Go(func() { n.worker.Run(inner) })
	}
	if n.notifier != nil {
		work.Go(func() { n.notifier.Run(inner) })
	}
	if own, ok := n.filter.(*seen.Own); ok {
		work.Go(func() {
			select {
			case <-own.Failed():
				n.diskFailed(own.Failure())
			case <-inner.Done():
			}
		})
	}
	n.serving.Serve()
	lifecycle.Notify(lifecycle.Ready, lifecycle.Status("Serving as %s on %s", n.roles, n.serving.URL()))
	work.Go(func() { lifecycle.PingWatchdog(inner, func() {}, n.log) })
	fail := func(err, cause error) error {
		n.stopping.Arm()
		cancel(cause)
		n.serving.Drain(0, failedGrace) // a call that has changed something is answered before the store is closed
		return err
	}
	for {
		select {
		case <-reload:
			lifecycle.Reloading()
			n.reload()
			lifecycle.Notify(lifecycle.Ready)
		case err := <-n.serving.Broken():
			return fail(err, nil)
		case err := <-n.broken: // nothing can be stored any more, until the program starts again
			return fail(fmt.Errorf("stopped because the disk failed: %w", err), worker.ErrAtOnce)
		case <-ctx.Done():
			start := time.Now()
			n.log.Info("stopping", "reason", context.Cause(ctx).Error())
			n.stopping.Arm()
			lifecycle.Notify(lifecycle.Stopping, lifecycle.Status("Stopping: ending the downloads under way"), lifecycle.MoreTime(n.cfg.ShutdownTimeout+stopRest))
			cancel(nil) // the worker finishes or gives back its tasks while calls are still answered
			n.serving.Drain(stopLinger, n.cfg.ShutdownTimeout)
			work.Wait()
			n.log.Info("stopped", "took", time.Since(start).Round(time.Millisecond))
			return nil
		}
	}
}

// diskFailed has Run end.
func (n *Node) diskFailed(reason error) { n.broken <- reason }

func (n *Node) reload() {
	if n.tokens != nil {
		warnings, err := n.tokens.Reload()
		for _, w := range warnings {
			n.log.Warn(w)
		}
		n.logReload("tokens", err)
	}
	if n.cert != nil {
		n.logReload("certificate", n.cert.Reload())
	}
}

func (n *Node) logReload(what string, err error) {
	if err != nil {
		n.log.Error(what+" not reloaded; those read before stay in use", "err", err)
		return
	}
	n.log.Info(what + " reloaded")
}

// end closes the node. The error service is told why the node ends, if that is an error.
func (n *Node) end(why error) error {
	err := n.close()
	if n.faults != nil {
		if wrong := errors.Join(why, err); wrong != nil && !errors.Is(wrong, context.Canceled) {
			n.faults.Tell("program ends", wrong)
		}
		n.faults.Close()
	}
	return err
}

// close closes everything in the reverse order.
func (n *Node) close() error {
	var errs []error
	if n.serving != nil {
		errs = append(errs, n.serving.Close())
	}
	if n.browsers != nil {
		errs = append(errs, n.browsers.Close())
	}
	if n.fetcher != nil {
		n.fetcher.Close()
	}
	if n.spill != nil {
		errs = append(errs, n.spill.close())
	}
	if n.filter != nil {
		errs = append(errs, n.filter.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}
