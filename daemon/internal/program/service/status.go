package service

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/systemd"
)

// unitState is the state of a unit according to systemd.
type unitState struct {
	Load     string `json:"load"`              // loaded, not-found, masked, ...
	Active   string `json:"active"`            // active, reloading, inactive, failed, activating, deactivating
	Sub      string `json:"sub"`               // running, listening, auto-restart, ...
	Enabled  string `json:"enabled,omitempty"` // enabled, disabled, static, ...
	Result   string `json:"result,omitempty"`  // success, exit-code, watchdog, ...
	PID      int    `json:"pid,omitempty"`
	Restarts int    `json:"restarts"` // by systemd, since the last manual start
	Memory   uint64 `json:"memory_bytes,omitempty"`
	Text     string `json:"text,omitempty"`   // the daemon's own words
	Listen   string `json:"listen,omitempty"` // of a socket
	Since    string `json:"since,omitempty"`  // active since, RFC 3339
	Next     string `json:"next,omitempty"`   // of a timer

	since time.Time
	stale bool // its files are newer than what systemd has read
}

func (s unitState) running() bool { return s.Active == "active" || s.Active == "reloading" }

func (s unitState) String() string {
	text := s.Active + " (" + s.Sub + ")"
	if s.Result != "" && s.Result != "success" {
		text += ", " + s.Result
	}
	return text
}

// systemdTime is the layout of systemd's times, if asked for microseconds in UTC.
const systemdTime = "Mon 2006-01-02 15:04:05.000000 MST"

// show asks systemd. A unit that is not installed has a state, too.
func (h *unitHost) show(ctx context.Context, name string) (unitState, error) {
	out, err := h.run(ctx, "systemctl", "show", name, "--timestamp=us+utc",
		"--property=LoadState,ActiveState,SubState,UnitFileState,Result,MainPID,NRestarts,MemoryCurrent,StatusText,Listen,ActiveEnterTimestamp,NextElapseUSecRealtime,NeedDaemonReload")
	if err != nil {
		return unitState{}, err
	}
	m := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		if m[key] != "" { // a socket with several addresses has as many lines
			value = m[key] + ", " + value
		}
		m[key] = value
	}
	s := unitState{
		Load: m["LoadState"], Active: m["ActiveState"], Sub: m["SubState"], Enabled: m["UnitFileState"], Result: m["Result"],
		Text: m["StatusText"], Listen: strings.ReplaceAll(m["Listen"], " (Stream)", ""), Next: m["NextElapseUSecRealtime"],
		stale: m["NeedDaemonReload"] == "yes",
	}
	// Numbers that systemd does not know are words.
	s.PID, _ = strconv.Atoi(m["MainPID"])
	s.Restarts, _ = strconv.Atoi(m["NRestarts"])
	if n, err := strconv.ParseUint(m["MemoryCurrent"], 10, 63); err == nil {
		s.Memory = n
	}
	if at, err := time.Parse(systemdTime, m["ActiveEnterTimestamp"]); err == nil && s.running() {
		s.since, s.Since = at, at.Format(time.RFC3339)
	}
	return s, nil
}

// serviceState is the output of status.
type serviceState struct {
	Service unitState  `json:"service"`
	Socket  unitState  `json:"socket"`
	Timer   *unitState `json:"timer,omitempty"` // of the monthly writeback, where installed
}

func showStatus(cmd *cobra.Command, h *unitHost, asJSON bool) error {
	if err := h.hasSystemd("service status"); err != nil {
		return err
	}
	var s serviceState
	var err error
	if s.Service, err = h.show(cmd.Context(), h.program.Service()); err != nil {
		return err
	}
	if s.Socket, err = h.show(cmd.Context(), h.program.Socket()); err != nil {
		return err
	}
	if h.program.Job != nil {
		timer, err := h.show(cmd.Context(), h.program.JobTimer())
		if err != nil {
			return err
		}
		if timer.Load == "loaded" {
			s.Timer = &timer
		}
	}
	if asJSON {
		err = command.WriteJSON(cmd.OutOrStdout(), s)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), s.text(h.program))
	}
	switch {
	case err != nil:
		return err
	case s.Service.Load != "loaded":
		return command.ExitCode(exitNotInstalled)
	case !s.Service.running():
		return command.ExitCode(exitNotRunning)
	}
	return nil
}

// text returns the form for people.
func (s serviceState) text(program systemd.Program) string {
	if s.Service.Load != "loaded" {
		return fmt.Sprintf("%s: not installed (%s)\n", program.Service(), s.Service.Load)
	}
	var b strings.Builder
	d := s.Service
	fmt.Fprintf(&b, "%s: %s", program.Service(), d)
	if d.running() {
		fmt.Fprintf(&b, ", process %d since %s", d.PID, d.Since)
	}
	if d.Memory > 0 { // if systemd counts it
		fmt.Fprintf(&b, ", %s", human.Bytes(int64(d.Memory)))
	}
	if d.Restarts > 0 {
		fmt.Fprintf(&b, ", restarted %d times", d.Restarts)
	}
	fmt.Fprintf(&b, "; %s\n", d.Enabled)
	if d.Text != "" {
		fmt.Fprintf(&b, "  %s\n", d.Text)
	}
	fmt.Fprintf(&b, "%s: %s, %s; %s\n", program.Socket(), s.Socket, s.Socket.Listen, s.Socket.Enabled)
	if s.Timer != nil {
		fmt.Fprintf(&b, "%s: %s, next %s; %s\n", program.JobTimer(), s.Timer, s.Timer.Next, s.Timer.Enabled)
	}
	return b.String()
}
