package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// Revert is the way back that a host takes by itself, when nobody confirms what was started last:
// the link to it may be lost, and its operator gone. It is what networks call a confirmed commit (RFC
// 6241, 8.4).
//
// Before something new is started, Arm leaves a script on the host that restores what is there, and a
// timer that runs it. The script does nothing while a run holds the host's lock, and thus its operator
// decides; the lock ends with the connection of the run. Confirm removes script and timer.
type Revert struct {
	Program systemd.Program
	// After is how long the host waits at least.
	After time.Duration

	armed bool // by this run: nothing was armed before
}

// revertHead begins the script: it takes the lock of the toolkit's runs, or leaves the decision to
// the run that holds it.
const revertHead = `# %s. It restores what ran before, unless a run confirms what runs now.
LC_ALL=C; export LC_ALL
umask 022
cd /
exec 9<>%s
flock -n 9 || exit 0
[ -e %s ] || exit 0 # a run has confirmed it meanwhile
for d in %[6]s %[7]s; do # a full disk would let it restore a part, and start a mixture
	head -c "$(wc -c <%[3]s)" /dev/zero >$d/.room; left=$?
	rm -f $d/.room
	[ $left = 0 ] || { echo "$d has no room for what ran before: trying again"; exit 0; }
done
printf '%%s\n' "who=the host itself" "what=going back, as nobody has confirmed what was started" "since=$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)" "pid=$$" >%[2]s
from=$(readlink %[4]s); from=${from##*/}
port=$(cat %[5]s 2>/dev/null)
failed=
`

// revertTail starts what was restored, and says what became of it.
const revertTail = `systemctl daemon-reload
to=$(readlink %[1]s); to=${to##*/}
if [ ! -e %[1]s/ ]; then
%[5]s
	to="no release"
elif [ -e %[9]s ] && ! systemctl show -p ActiveState --value %[2]s %[3]s | grep -qE '^(active|activating|reloading|failed)$'; then
	to="$to, which somebody has stopped"
else
	systemctl reset-failed %[2]s %[3]s 2>/dev/null
	if [ "$port" = "$(cat %[4]s 2>/dev/null)" ]; then systemctl start %[3]s && systemctl restart %[2]s; else
		systemctl stop %[2]s; systemctl restart %[3]s && systemctl restart %[2]s
	fi || failed=1
fi
echo "$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ) $from" >%[6]s
echo "nobody has confirmed ${from:-what was started}: back to $to${failed:+, with errors}"
%[7]s
: >%[8]s
`

// wentBackPath is the file in which a host notes when, and from which release, it went back by itself.
func wentBackPath(p systemd.Program) string { return p.Root() + "/went-back" }

// stoppedPath is the file that tells a host which goes back that somebody has stopped the daemon meanwhile. It no longer
// counts once the daemon has been started again.
func stoppedPath(p systemd.Program) string { return p.RevertDir() + "/stopped" }

// script returns what stands before and after that which restores.
func (r *Revert) script() (head, tail string) {
	p := r.Program
	current, socket := p.Root()+"/current", systemd.Dir+"/"+p.Socket()
	return fmt.Sprintf(revertHead, host.Written, host.LockPath, p.RevertScript(), current, socket, p.Root(), systemd.Dir),
		fmt.Sprintf(revertTail, current, p.Service(), p.Socket(), socket, Stopping(p), wentBackPath(p), r.disarming(), host.LockPath, stoppedPath(p))
}

// disarming removes script and units. It may be run by the service itself. A host that loses its power afterwards must
// not find them again, and go back from what was confirmed.
func (r *Revert) disarming() string {
	p := r.Program
	return fmt.Sprintf("systemctl disable --quiet --now %s 2>/dev/null\nrm -rf %s %s/%[1]s %[3]s/%[4]s\nsync %[5]s %[3]s\nsystemctl daemon-reload",
		p.RevertTimer(), p.RevertDir(), systemd.Dir, p.RevertService(), p.Root())
}

// Arm leaves on a host the script that restores what it has now, and starts the timer. A host that loses its power
// afterwards finds both. What a script that is
// there already restores follows: together they restore what was confirmed last.
func (r *Revert) Arm(ctx context.Context, h host.Host, restore string) error {
	p := r.Program
	files, err := systemd.RenderRevert(p, r.After)
	if err != nil {
		return err
	}
	before, err := LastStatus(ctx, h, p)
	if err != nil {
		return fmt.Errorf("prepare the way back: %w", err)
	}
	r.armed = !before.Unconfirmed // also if what follows is broken off: it may have been done
	head, tail := r.script()
	text := head + restore
	var units strings.Builder
	for _, f := range files {
		fmt.Fprintf(&units, "cat >%s <<'end of the unit'\n%send of the unit\n", host.Quote(systemd.Dir+"/"+f.Name), f.Content)
	}
	script := fmt.Sprintf(`umask 077
mkdir -p %[1]s && cat >%[2]s.new || exit
[ "$(($(wc -c <%[2]s.new)))" = %[3]d ] || { echo "the script was cut off" >&2; exit 1; }
if [ -e %[2]s ]; then sed '1,/^failed=$/d' %[2]s >>%[2]s.new || exit; else cat >>%[2]s.new <<'end of the script' || exit
%[6]send of the script
fi
rm -f %[7]s
sync %[2]s.new && mv %[2]s.new %[2]s && sync %[1]s || exit
umask 022
%[4]ssync %[8]s/%[9]s %[8]s/%[5]s && systemctl daemon-reload && systemctl enable --quiet %[5]s && sync %[8]s %[8]s/timers.target.wants && systemctl restart %[5]s`,
		host.Quote(p.RevertDir()), host.Quote(p.RevertScript()), len(text), units.String(), p.RevertTimer(), tail, host.Quote(stoppedPath(p)), systemd.Dir, p.RevertService())
	if _, err := h.Run(ctx, host.Command{Root: true, Script: script, Stdin: strings.NewReader(text), Secret: true}); err != nil {
		return fmt.Errorf("prepare the way back: %w", err)
	}
	return nil
}

// Disarm removes what Arm has left in this run, once the host is as it was before. What an earlier
// run has left stays.
func (r *Revert) Disarm(ctx context.Context, h host.Host) error {
	if !r.armed {
		return nil
	}
	return host.AsRoot(ctx, h, r.disarming())
}

// Confirm is the late step after which the host keeps what runs.
func (r *Revert) Confirm() step.Wish {
	return step.NewWish("service: confirm", func(ctx context.Context, h host.Host) (*step.Change, error) {
		s, err := LastStatus(ctx, h, r.Program)
		if err != nil || !s.Unconfirmed && s.WentBack == "" {
			return nil, err
		}
		return &step.Change{Summary: "keep what runs", Apply: func(ctx context.Context) error {
			return host.AsRoot(ctx, h, r.disarming()+"\nrm -f "+wentBackPath(r.Program))
		}}, nil
	})
}

// bakeEvery is how often a daemon that is being watched is checked.
const bakeEvery = time.Second

// Bake is the step that watches a daemon that Prove has found healthy until it has run for
// that long, and then checks it once more. It does not wait for a daemon that has run for
// longer already, and ignores one that Prove has not checked.
func (c *Health) Bake(long time.Duration) step.Proof {
	return step.NewProof("service: bake", func(ctx context.Context, h host.Host) error {
		began := time.Now()
		err := c.bake(ctx, h, long)
		if err == nil || ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) {
			return err
		}
		if !c.acted.IsZero() {
			began = c.acted
		}
		return withJournal(ctx, h, c.Program.Program, err, time.Since(began))
	})
}

func (c *Health) bake(ctx context.Context, h host.Host, long time.Duration) error {
	if c.proved.PID == 0 {
		return nil // this run has neither started nor checked a daemon
	}
	for began, waited := time.Now(), false; ; waited = true {
		s, err := StatusOf(ctx, h, c.Program.Program)
		switch {
		case err != nil:
			return err
		case !s.Running() || s.PID != c.proved.PID:
			return fmt.Errorf("the daemon does not stay up: process %d was healthy and has ended, now %s", c.proved.PID, s)
		case s.Age() >= long && !waited:
			return nil
		case s.Age() >= long || time.Since(began) >= long: // the host's clock may have been put back meanwhile
			return c.prove(ctx, h)
		case !waited:
			step.Say(ctx, "it is watched until it has run for %s", long)
		}
		if err := host.Sleep(ctx, min(bakeEvery, long-s.Age())); err != nil {
			return err
		}
	}
}

// Crashed reports whether the daemon has ended by itself and not come up again: systemd has
// given up on it, or starts it again and again.
func (s Status) Crashed() bool {
	return s.looping() || s.Active == "failed" && s.Result != "success"
}
