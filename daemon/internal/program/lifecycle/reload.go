package lifecycle

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// ReloadSignals are the requests to reload files: SIGHUP, but at a terminal, where it ends the
// program as any other. The caller stops them with [signal.Stop].
func ReloadSignals() chan os.Signal {
	reload := make(chan os.Signal, 1)
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		signal.Notify(reload, syscall.SIGHUP)
	}
	return reload
}
