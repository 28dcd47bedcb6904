package lifecycle

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// ReloadSignals delivers requests to reload files: SIGHUP, except at a terminal, where it ends
// the program as usual. The caller stops them with [signal.Stop].
func ReloadSignals() chan os.Signal {
	reload := make(chan os.Signal, 1)
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		signal.Notify(reload, syscall.SIGHUP)
	}
	return reload
}
