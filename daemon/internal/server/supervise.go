package server

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
)

// statusLine is what `systemctl status` shows.
func (d *Server) statusLine(ctx context.Context) string {
	if err := d.engine.Ready(ctx); err != nil {
		return fmt.Sprintf("Serving %s, NOT READY: %v", d.serving.URL(), err)
	}
	return fmt.Sprintf("Serving %s: %d filters", d.serving.URL(), len(d.engine.Filters()))
}

// reload is what the service manager's reload asks for.
func (d *Server) reload() {
	lifecycle.Reloading()
	d.secrets.reload()
	lifecycle.Notify(lifecycle.Ready)
}
