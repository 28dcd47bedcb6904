package service

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/systemd"
)

// unread is a host on which systemd has not read the newest files of the units.
type unread struct {
	told
	log string
}

func (h *unread) Run(ctx context.Context, c host.Command) (host.Output, error) {
	if c.Look || c.Watch {
		return h.told.Run(ctx, c)
	}
	out, err := exec.CommandContext(ctx, "sh", "-c", `systemctl() { echo "$1" >>`+h.log+`; [ "$1" != show ] || echo NeedDaemonReload=yes; }
`+c.Script).CombinedOutput()
	return host.Output{Stdout: string(out)}, err
}

// A daemon is restarted with the units that are on the disk, also after a run that was broken off before systemd had read
// them: nobody would see later that it runs with the old ones.
func TestRestartWithUnitsThatSystemdHasNotRead(t *testing.T) {
	t.Parallel()
	h := &unread{told{says: []string{strings.Replace(up, "2000", "1000", 1), up}}, filepath.Join(t.TempDir(), "log")}
	d := &Daemon{Health: &Health{Program: program.Program{Program: systemd.Urifilter()}, Timeout: time.Minute}}
	if err := d.act(t.Context(), h, restart); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(h.log); err != nil || string(got) != "reset-failed\nshow\ndaemon-reload\nstart\nrestart\n" {
		t.Errorf("%q, %v", got, err)
	}
}
