package server

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
)

// statusLine returns the line for `systemctl status`.
func (d *Server) statusLine(ctx context.Context) string {
	if err := d.engine.Ready(ctx); err != nil {
		return fmt.Sprintf("Serving %s, NOT READY: %v", d.serving.URL(), err)
	}
	return fmt.Sprintf("Serving %s: %d filters", d.serving.URL(), len(d.engine.Filters()))
}

// reload handles a reload by the service manager.
func (d *Server) reload() {
	lifecycle.Reloading()
	d.secrets.reload()
	lifecycle.Notify(lifecycle.Ready)
}
