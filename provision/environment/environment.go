// Package environment prepares a host for a program's daemon: its user, its folders, and the token with which
// the host's own jobs call it. It sets no clock, no limits of login sessions (the unit has those of the
// daemon), no firewall, and no net.core.somaxconn, which is 4096 on every supported kernel and suffices.
package environment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// Options are the user of the daemon and the paths of its files.
type Options struct {
	Program     systemd.Program
	User, Group string // default: the program's name
	// Callers are other programs that call the daemon, each with its own token.
	Callers []string
}

func (o Options) complete() Options {
	o.User, o.Group = cmp.Or(o.User, o.Program.User()), cmp.Or(o.Group, o.Program.User())
	return o
}

// Steps returns the steps that prepare a host for a release of the program.
func Steps(o Options) []step.Step {
	o = o.complete()
	steps := []step.Step{o.account(), o.folders(), o.token("operator", systemd.TokenName)}
	for _, caller := range o.Callers {
		steps = append(steps, o.token(caller, CallerToken(caller)))
	}
	return step.Early(append(steps, Clock(), HugePages())...)
}

// account makes the group and the user. Existing ones are not changed.
func (o Options) account() step.Wish {
	return step.NewWish("environment: user", func(ctx context.Context, h host.Host) (*step.Change, error) {
		script := fmt.Sprintf(`echo "$(getent group %s)"; getent passwd %s; :`, host.Quote(o.Group), host.Quote(o.User))
		out, err := h.Run(ctx, host.Command{Script: script, Look: true})
		if err != nil {
			return nil, err
		}
		group, user, _ := strings.Cut(out.Stdout, "\n")
		if err := mayRun(user); err != nil {
			return nil, err
		}
		var summary, commands []string
		if group == "" {
			summary = append(summary, "make the group "+o.Group)
			commands = append(commands, "groupadd --system "+host.Quote(o.Group))
		}
		if user == "" {
			summary = append(summary, "make the user "+o.User)
			commands = append(commands, fmt.Sprintf("useradd --system --gid %s --home-dir %s --no-create-home --shell /usr/sbin/nologin --comment %s %s",
				host.Quote(o.Group), host.Quote(o.Program.DataDir()), host.Quote(o.Program.Name+" daemon"), host.Quote(o.User)))
		}
		if len(summary) == 0 {
			return nil, nil
		}
		return &step.Change{Summary: strings.Join(summary, " and "), Apply: func(ctx context.Context) error {
			return host.AsRoot(ctx, h, "PATH=$PATH:/usr/sbin:/sbin; "+strings.Join(commands, " && "))
		}}, nil
	})
}

// mayRun refuses root's account: entry is a line of passwd, "" for a user to be created.
func mayRun(entry string) error {
	fields := strings.Split(entry, ":")
	if len(fields) > 2 && fields[2] == "0" {
		return fmt.Errorf("user %s: it has root's rights, which the daemon does not need\nhint: name another one in service.user of the inventory; it is made where it is missing", fields[0])
	}
	return nil
}

// folder is a folder that must exist.
type folder struct {
	path         string
	mode         fs.FileMode
	owner, group string
}

func (f folder) String() string {
	return fmt.Sprintf("%s (%04o %s:%s)", f.path, f.mode, f.owner, f.group)
}

func (o Options) list() []folder {
	return []folder{
		{o.Program.Root(), 0o755, "root", "root"},
		{o.Program.Root() + "/releases", 0o755, "root", "root"},
		{o.Program.ConfigDir(), 0o750, "root", o.Group},
		// As StateDirectoryMode of the unit.
		{o.Program.DataDir(), 0o700, o.User, o.Group},
	}
}

func (o Options) folders() step.Wish {
	return step.NewWish("environment: folders", func(ctx context.Context, h host.Host) (*step.Change, error) {
		var differ []folder
		var names []string
		all := o.list()
		seen, err := look(ctx, h, all)
		if err != nil {
			return nil, err
		}
		for i, f := range all {
			same, err := f.is(seen[i])
			if err != nil {
				return nil, err
			}
			if !same {
				differ, names = append(differ, f), append(names, f.String())
			}
		}
		if len(differ) == 0 {
			return nil, nil
		}
		return &step.Change{Summary: "make " + strings.Join(names, ", "), Apply: func(ctx context.Context) error {
			var script []string
			for _, f := range differ {
				// Five digits also take the set-group-ID away that a folder has from the one that it is in.
				script = append(script, fmt.Sprintf("install -d -m %05o -o %s -g %s %s", f.mode, host.Quote(f.owner), host.Quote(f.group), host.Quote(f.path)))
			}
			return host.AsRoot(ctx, h, strings.Join(script, " && "))
		}}, nil
	})
}

// look examines the paths of folders with one command: one line each, empty if nothing exists there.
func look(ctx context.Context, h host.Host, all []folder) ([]string, error) {
	var paths []string
	for _, f := range all {
		paths = append(paths, f.path)
	}
	script := "for f in " + host.Words(paths...) + `; do if [ -e "$f" ]; then stat -Lc '%F|%a|%U|%G' "$f" || exit; else echo; fi; done`
	out, err := h.Run(ctx, host.Command{Script: script, Look: true, Root: true})
	if err != nil {
		return nil, err
	}
	seen := strings.Split(strings.TrimSuffix(out.Stdout, "\n"), "\n")
	if len(seen) != len(all) {
		return nil, fmt.Errorf("look at %d folders: got %d lines", len(all), len(seen))
	}
	return seen, nil
}

// is reports whether the folder exists as required; seen describes what is at its path.
func (f folder) is(seen string) (bool, error) {
	if seen == "" {
		return false, nil
	}
	if kind, _, _ := strings.Cut(seen, "|"); kind != "directory" {
		return false, fmt.Errorf("%s: it is a %s: want a folder\nhint: see what it is, and move it away", f.path, kind)
	}
	return seen == fmt.Sprintf("directory|%o|%s|%s", f.mode, f.owner, f.group), nil
}

// CallerToken is the file, in the daemon's settings folder, with the token of another program that
// calls it.
func CallerToken(caller string) string { return caller + ".token" }

// token makes the token of a caller in a file of the settings folder.
func (o Options) token(of, name string) step.Wish {
	path := o.Program.ConfigDir() + "/" + name
	return step.NewWish("environment: "+of+" token", func(ctx context.Context, h host.Host) (*step.Change, error) {
		f, there, err := host.ReadFile(ctx, h, path)
		if err != nil {
			return nil, err
		}
		owner := "root:" + o.Group
		right := f.Mode == 0o640 && f.Owner+":"+f.Group == owner
		switch {
		case there && secret.IsDrawn(f.Content) && right:
			return nil, nil
		case there && secret.IsDrawn(f.Content):
			return &step.Change{Summary: fmt.Sprintf("let only %s read %s", owner, path), Apply: func(ctx context.Context) error {
				return host.AsRoot(ctx, h, fmt.Sprintf("chown %s %s && chmod 0640 %[2]s", host.Quote(owner), host.Quote(path)))
			}}, nil
		}
		return &step.Change{Summary: "make " + path, Apply: func(ctx context.Context) error {
			file := secret.File{Path: path, Temporary: path + ".XXXXXX", Owner: owner, Mode: "0640"}
			_, err := h.Run(ctx, host.Command{Script: file.Script(), Root: true, Secret: true})
			return err
		}}, nil
	})
}

// OperatorToken reads the token in a file, with which the host's own jobs call a daemon: the
// monthly writeback and the toolkit's health check; "" if it does not exist yet.
func OperatorToken(ctx context.Context, h host.Host, path string) (string, error) {
	token, err := secret.Read(ctx, h, path, "remove the file and run `go tool mage install:env`, which makes another")
	if errors.Is(err, secret.ErrNoPassword) {
		return "", nil
	}
	return token, err
}

// HugePages warns if the kernel provides no huge pages: the bit-maps request them. It changes
// nothing, because the setting affects the whole machine.
func HugePages() step.Proof {
	return step.NewProof("environment: huge pages", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: "cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || :", Look: true})
		if err == nil && strings.Contains(out.Stdout, "[never]") {
			step.Warn(ctx, "transparent huge pages are off: filters of many million items answer more slowly; `echo madvise >/sys/kernel/mm/transparent_hugepage/enabled` gives them to programs that ask for them")
		}
		return err
	})
}

// lookClock finds out whether the clock is synchronized.
const lookClock = `systemd-detect-virt --container --quiet && { echo container; exit; }
[ "$(timedatectl show --property=NTPSynchronized --value 2>/dev/null)" = yes ] && { echo synchronized; exit; }
for u in systemd-timesyncd chrony chronyd ntp ntpsec ntpd openntpd; do
	systemctl is-active --quiet $u.service && { echo $u; exit; }
done
echo nobody`

// Clock warns if the clock is not synchronized: timing filters, leases in the archive and the
// monthly writeback depend on it.
func Clock() step.Proof {
	return step.NewProof("environment: clock", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: lookClock, Look: true})
		if err == nil && strings.TrimSpace(out.Stdout) == "nobody" {
			step.Warn(ctx, "the clock is not synchronized; `apt-get install systemd-timesyncd`, or chrony, does that")
		}
		return err
	})
}
