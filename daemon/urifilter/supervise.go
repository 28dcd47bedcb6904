package main

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
)

// locksAreFree takes the locks that every batch takes. It hangs where one of them is held for
// good. A disk or a Redis that does not answer is not waited for: a restart would not bring
// it back.
func (d *daemon) locksAreFree() {
	for _, f := range d.engine.Filters() {
		f.Stats()
	}
}

// statusLine is what `systemctl status` shows.
func (d *daemon) statusLine(ctx context.Context) string {
	if err := d.engine.Ready(ctx); err != nil {
		return fmt.Sprintf("Serving %s, NOT READY: %v", d.url(), err)
	}
	return fmt.Sprintf("Serving %s: %d filters", d.url(), len(d.engine.Filters()))
}

// reload is what the service manager's reload asks for.
func (d *daemon) reload() {
	lifecycle.Reloading()
	d.secrets.reload()
	lifecycle.Notify(lifecycle.Ready)
}
