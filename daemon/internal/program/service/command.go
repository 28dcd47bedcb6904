// Package service makes a program a service of its machine, under systemd or, on macOS, under
// launchd, and controls the service. It holds the command `service`; package systemd has the
// units.
package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/systemd"
)

// Exit codes of the service commands, besides those of all commands.
const (
	exitWouldChange  = 3 // install --dry-run
	exitNotRunning   = 3 // status, as with systemctl
	exitNotInstalled = 4 // status
)

// Settings say how a program finds and reads its settings.
type Settings struct {
	Program systemd.Program
	Default string                   // the file if none is named
	Find    func(flag string) string // the file to read, "" if there is none
	// Read checks a file and returns the values that the units need: DataDir, and Listen of the
	// daemon's command.
	Read func(file, run string) (systemd.Params, error)
}

// NewCommand makes the command service.
func NewCommand(s Settings) *cobra.Command {
	p := s.Program
	timed := ""
	if p.Job != nil {
		timed = "  " + systemd.Dir + "/" + p.JobTimer() + "  with --timer: to " + p.Job.Does + ", every month\n" +
			"  " + systemd.Dir + "/" + p.JobService() + "\n"
	}
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Make the daemon a service of this machine, and control it",
		Long: `Make the daemon a service of this machine, and control it.

On Linux the service is that of systemd: the daemon behind a socket, so that callers
queue while it restarts, in a sandbox, with a watchdog. What install writes:

  ` + systemd.Dir + `/` + p.Service() + `
  ` + systemd.Dir + `/` + p.Socket() + `           the port, from "listen" in the settings
  ` + systemd.Dir + `/` + p.Retry() + `      tries again after a crash loop
` + timed + `
Changes of your own belong in ` + p.Service() + `.d/*.conf (systemctl edit ` + p.Name + `),
which is never touched. The usual commands work too: systemctl start, stop, restart,
reload, status ` + p.Name + `; journalctl -u ` + p.Name + `. (systemctl stop says that the
socket can start the daemon again; it is stopped as well.)

On macOS the service is that of launchd. Other systems are not supported.`,
		Example: `  # as root, once the settings are written
  ` + p.Name + ` service install --now

  ` + p.Name + ` service status
  ` + p.Name + ` service logs --follow`,
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newInstall(s), newUninstall(p), newStatus(p),
		newControl(p, "start", "Start the daemon and its port", (*unitHost).start),
		newControl(p, "stop", "Stop the daemon and its port; neither comes back before a start or a reboot", (*unitHost).stop),
		newControl(p, "restart", "Restart the daemon; callers wait meanwhile, and none is refused", (*unitHost).restart),
		newControl(p, "reload", "Reload the tokens and the certificate, without a restart", (*unitHost).reload),
		newLogs(p))
	return cmd
}

func newInstall(s Settings) *cobra.Command {
	p := s.Program
	var o installOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the service, or bring it up to date",
		Long: `Install the service so that it starts with the machine, or bring an installed one up to
date. A second run says "unchanged". Nothing is started or restarted without --now.

Before anything is written the settings are checked, and systemd reads the units.

With --dry-run nothing is written; what would change is printed. It exits with 0 when
nothing would, and with 3 when something would.`,
		Example: `  # what would be written?
  ` + p.Name + ` service install --config ` + p.Config() + ` --dry-run

  # install and start, with what it does every month
  ` + p.Name + ` service install --timer --now

  # another user and place
  ` + p.Name + ` service install --user crawl --binary /usr/local/bin/` + p.Name,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.timerGiven = cmd.Flags().Changed("timer")
			if !cmd.Flags().Changed("binary") {
				o.binary = defaultBinary(p)
			}
			if runtime.GOOS != "linux" {
				return installElsewhere(cmd, s, o)
			}
			return installUnits(cmd, thisHost(p), s, o, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "`file` of settings (env "+p.Env("CONFIG")+")")
	// Its default is not among the texts: manual pages must not say where the program was that wrote them.
	f.StringVar(&o.binary, "binary", "", "the `program` that the service runs; a link in the path is followed at each start (default \""+p.Binary()+"\" on Linux, elsewhere this program)")
	f.StringVar(&o.user, "user", "", "run the daemon as this `user` (default \""+p.User()+"\" on Linux)")
	f.StringVar(&o.group, "group", "", "and this `group` (default: that of the name of the user)")
	if p.Job != nil {
		f.BoolVar(&o.timer, "timer", false, p.Job.Does+", every month, by a timer; --timer=false removes it; if not given it stays as it is")
	}
	if len(p.Daemons) > 1 {
		f.StringVar(&o.run, "run", "", "the `command` that the service runs: "+strings.Join(p.Daemons, ", ")+"; if not given it stays as it is, or is the first")
	}
	f.BoolVar(&o.now, "now", false, "start the service, or restart it if its units have changed since it was started")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "write nothing, print what would change, and exit with 3 if something would")
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func defaultBinary(p systemd.Program) string {
	if runtime.GOOS == "linux" {
		return p.Binary()
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

func newUninstall(p systemd.Program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service and remove it; data, settings and programs stay",
		Long: `Stop the service, and remove its units. The data directory, the settings, the program,
the user and drop-ins (` + p.Service() + `.d) stay.`,
		Example: "  " + p.Name + " service uninstall",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runtime.GOOS != "linux" {
				return uninstallElsewhere(cmd, p)
			}
			return uninstallUnits(cmd, thisHost(p), asJSON)
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func newStatus(p systemd.Program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the service",
		Long: `Show the state of the service, as systemd and the daemon report it. It exits with 0
when the daemon runs, with 3 when it does not, and with 4 when it is not installed.`,
		Example: "  " + p.Name + ` service status
  ` + p.Name + ` service status --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runtime.GOOS != "linux" {
				return statusElsewhere(cmd, p)
			}
			return showStatus(cmd, thisHost(p), asJSON)
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func newControl(p systemd.Program, verb, short string, do func(*unitHost, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:     verb,
		Short:   short,
		Example: "  " + p.Name + " service " + verb,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runtime.GOOS != "linux" {
				return controlElsewhere(p, verb)
			}
			h := thisHost(p)
			if err := h.mayChange("service " + verb); err != nil {
				return err
			}
			if err := do(h, cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", p.Service(), map[string]string{
				"start": "started", "stop": "stopped", "restart": "restarted", "reload": "reloaded",
			}[verb])
			return nil
		},
	}
}

func newLogs(p systemd.Program) *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the daemon's lines of the journal",
		Example: "  " + p.Name + ` service logs --lines 100
  ` + p.Name + ` service logs --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runtime.GOOS != "linux" {
				return errors.New("service logs: there is no journal on this system\nhint: launchd writes the daemon's log to /usr/local/var/log")
			}
			args := []string{"--unit=" + p.Service(), "--lines=" + strconv.Itoa(lines), "--output=short-iso"}
			if p.Job != nil {
				args = append(args, "--unit="+p.JobService())
			}
			if follow {
				args = append(args, "--follow")
			}
			journal := exec.CommandContext(cmd.Context(), "journalctl", args...)
			journal.Stdout, journal.Stderr = terminal.Stream(cmd.OutOrStdout()), terminal.Stream(cmd.ErrOrStderr())
			if err := journal.Run(); err != nil && cmd.Context().Err() == nil {
				return fmt.Errorf("journalctl: %w\nhint: root and the group systemd-journal may read the journal", err)
			}
			return command.Stopped(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep showing new lines")
	cmd.Flags().IntVarP(&lines, "lines", "l", 50, "show the last `n` lines")
	return cmd
}

// unitHost is the machine with the managed units.
type unitHost struct {
	program systemd.Program
	dir     string // of units
	// run runs a program and returns its output. Its error has the name of the program, and
	// its standard error.
	run func(ctx context.Context, name string, args ...string) (string, error)
}

func thisHost(p systemd.Program) *unitHost {
	return &unitHost{program: p, dir: systemd.Dir, run: runProgram}
}

func runProgram(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=cat")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
		if text := strings.TrimSpace(errOut.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
	}
	return string(out), err
}

// mayChange says why this process cannot change the service.
func (h *unitHost) mayChange(what string) error {
	if err := h.hasSystemd(what); err != nil {
		return err
	}
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("%s: user id %d: want root\nhint: sudo %s", what, uid, strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "))
	}
	return nil
}

func (h *unitHost) hasSystemd(what string) error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return fmt.Errorf("%s: systemd does not run here\nhint: start the daemon with `%s serve`; `%[2]s config example > %[2]s.yaml && %[2]s service install --dry-run --config %[2]s.yaml` prints the units", what, h.program.Name)
	}
	return nil
}

func (h *unitHost) systemctl(ctx context.Context, args ...string) error {
	_, err := h.run(ctx, "systemctl", args...)
	return err
}
