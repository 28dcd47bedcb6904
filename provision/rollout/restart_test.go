package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/site"
	"github.com/cr-clawer/urifilter/provision/step"
)

// serving is a host with one release, whose daemon has run it for long.
type serving struct {
	host.Host
	release     release.Manifest
	restarts    int
	unconfirmed bool
}

func (*serving) Name() string { return "web1" }

func (s *serving) Run(_ context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "manifest.json"):
		manifest, err := json.Marshal(s.release)
		return host.Output{Stdout: fmt.Sprintf("releases/%s\n%[1]s %s\n", s.release.ID, manifest)}, err
	case strings.Contains(c.Script, "systemctl show --timestamp"):
		said := fmt.Sprintf("LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=22\nExecMainStartTimestamp=%d\n\nActiveState=active\n\nProgram=%s\n",
			1000+s.restarts, s.program())
		if s.unconfirmed {
			said += "Unconfirmed=1\n"
		}
		return host.Output{Stdout: said}, nil
	case strings.Contains(c.Script, "readlink -f"):
		return host.Output{Stdout: "program 0 " + s.program() + "\n"}, nil
	case strings.Contains(c.Script, "systemctl restart --no-block"):
		s.restarts++
	}
	return host.Output{}, nil
}

func (s *serving) program() string {
	return release.At("/opt/urifilter", "urifilter").ProgramOf(s.release.ID)
}

// A restart with other units than before, after which the daemon is not healthy, is taken back with them: the daemon is
// started again with the units that it had, though its release is the same.
func TestRestartWithOtherUnitsIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &serving{release: release.Manifest{ID: "20261121T091500Z-0123456789ab", SHA256: strings.Repeat("0", 64)}}
		p := urifilter.Program()
		i := &Instance{Program: p, ledger: &ledger{}, revert: &service.Revert{Program: p.Program}, Release: &release.Deployment{Folder: release.At(p.Root(), p.Name)}}
		i.Health = &service.Health{Program: p, Settings: func(context.Context, host.Host) (program.Settings, error) { return program.Settings{}, nil }}
		i.daemon = &service.Daemon{Health: i.Health, Pending: i.ledger.why}
		r := &restarting{Wish: i.daemon.Restart(), i: i}
		if _, err := r.Look(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if said, err := r.Undo(t.Context(), h, context.Canceled); said != "" || err != nil || h.restarts != 0 {
			t.Errorf("nothing was changed: %q, %v, restarts: %d", said, err, h.restarts)
		}
		var log []string
		if err := apply(t, i.ledger.watch(turning("units", &log, false))); err != nil {
			t.Fatal(err)
		}
		said, err := r.Undo(t.Context(), h, context.Canceled)
		if err != nil || !strings.HasPrefix(said, "units is off; rolled back") || !slices.Equal(log, []string{"units on", "units off"}) || h.restarts != 1 {
			t.Errorf("%q, %v, %q, restarts: %d", said, err, log, h.restarts)
		}
	})
}

// What was started and not confirmed is confirmed by a run that has found it healthy, and by no other: settings are also
// written for a daemon that crashes, and the host must still go back from that.
func TestConfirmedOnlyIfHealthy(t *testing.T) {
	t.Parallel()
	h, p := &serving{unconfirmed: true}, urifilter.Program()
	i := &Instance{Program: p, ledger: &ledger{}, revert: &service.Revert{Program: p.Program}, Health: &service.Health{Program: p}}
	i.run = &Run{Site: &site.Site{Options: site.Options{Inventory: inventory.Default()}}}
	late := i.Bake()
	for _, s := range late[:len(late)-1] {
		if err := s.(step.Proof).Prove(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	confirm := late[len(late)-1].(step.Wish)
	if c, err := confirm.Look(t.Context(), h); c != nil || err != nil {
		t.Errorf("without a health check: %+v, %v", c, err)
	}
	i.ledger.keep(true)
	if c, err := confirm.Look(t.Context(), h); c == nil || err != nil {
		t.Errorf("after a health check: %+v, %v", c, err)
	}
}
