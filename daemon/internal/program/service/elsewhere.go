package service

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	kardianos "github.com/kardianos/service"
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/systemd"
)

// registration returns the service for the library that registers and removes it. unit is the
// text of systemd's unit; on macOS install fills in the rest.
func registration(p systemd.Program, unit string) (kardianos.Service, error) {
	return kardianos.New(noProgram{}, &kardianos.Config{Name: p.Name, Option: kardianos.KeyValue{"SystemdScript": unit}})
}

// noProgram is for services that are only registered here, and run by others.
type noProgram struct{}

func (noProgram) Start(kardianos.Service) error { return nil }
func (noProgram) Stop(kardianos.Service) error  { return nil }

// supportedElsewhere refuses systems where the daemon cannot be a service: a Windows service
// must talk to its manager, which serve does not.
func supportedElsewhere(p systemd.Program) error {
	if runtime.GOOS == "darwin" {
		return nil
	}
	return fmt.Errorf("service: not supported on %s: want Linux with systemd, or macOS\nhint: start the daemon with `%s serve`", runtime.GOOS, p.Name)
}

func installElsewhere(cmd *cobra.Command, settings Settings, o installOptions) error {
	p := settings.Program
	if err := supportedElsewhere(p); err != nil {
		return err
	}
	if o.timer || o.group != "" {
		return command.UsageError{Err: errors.New("--timer and --group are for systemd alone")}
	}
	config, err := filepath.Abs(settings.Find(o.config))
	if err != nil {
		return err
	}
	o.run = cmp.Or(o.run, p.Commands()[0])
	if _, err := settings.Read(config, o.run); err != nil {
		return err
	}
	s, err := kardianos.New(noProgram{}, &kardianos.Config{
		Name: p.Name, DisplayName: p.Name, Description: p.Does,
		Executable: o.binary, Arguments: append(strings.Fields(o.run), "--config", config), UserName: o.user,
		Option: kardianos.KeyValue{"KeepAlive": true, "RunAtLoad": true, "LogOutput": true},
	})
	if err != nil {
		return err
	}
	state, err := s.Status()
	installed := err == nil || !errors.Is(err, kardianos.ErrNotInstalled)
	switch {
	case o.dryRun && installed:
		fmt.Fprintln(cmd.OutOrStdout(), p.Name+": installed; whether it is up to date is not looked at on this system")
		return nil
	case o.dryRun:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: would be installed: %s %s --config %s\n", p.Name, o.binary, o.run, config)
		return command.ExitCode(exitWouldChange)
	case installed:
		if err := errors.Join(s.Uninstall(), s.Install()); err != nil {
			return err
		}
	default:
		if err := s.Install(); err != nil {
			return fmt.Errorf("%w\nhint: run it with sudo", err)
		}
	}
	if o.now || state == kardianos.StatusRunning {
		if err := s.Start(); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), p.Name+": installed")
	return err
}

func uninstallElsewhere(cmd *cobra.Command, p systemd.Program) error {
	if err := supportedElsewhere(p); err != nil {
		return err
	}
	s, err := registration(p, "")
	if err != nil {
		return err
	}
	if err := s.Uninstall(); err != nil {
		return fmt.Errorf("%w\nhint: run it with sudo", err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), p.Name+": removed")
	return err
}

func statusElsewhere(cmd *cobra.Command, p systemd.Program) error {
	if err := supportedElsewhere(p); err != nil {
		return err
	}
	s, err := registration(p, "")
	if err != nil {
		return err
	}
	text, code := "running", 0
	switch state, err := s.Status(); {
	case errors.Is(err, kardianos.ErrNotInstalled):
		text, code = "not installed", exitNotInstalled
	case err != nil:
		return err
	case state != kardianos.StatusRunning:
		text, code = "not running", exitNotRunning
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), p.Name+": "+text); err != nil || code == 0 {
		return err
	}
	return command.ExitCode(code)
}

func controlElsewhere(p systemd.Program, verb string) error {
	if err := supportedElsewhere(p); err != nil {
		return err
	}
	s, err := registration(p, "")
	if err != nil {
		return err
	}
	switch verb {
	case "start":
		err = s.Start()
	case "stop":
		err = s.Stop()
	case "restart":
		err = s.Restart()
	default:
		return fmt.Errorf("service %s: not supported on %s\nhint: send the daemon SIGHUP", verb, runtime.GOOS)
	}
	if err != nil {
		return fmt.Errorf("%w\nhint: is it installed? run it with sudo", err)
	}
	return nil
}
