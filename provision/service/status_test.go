package service

import (
	"testing"
	"time"
)

func parseStatus(text string) Status {
	s, _ := statusIn(text)
	return s
}

func TestStatusOfServiceAndSocket(t *testing.T) {
	t.Parallel()
	const service = "MainPID=71\nLoadState=loaded\nActiveState=active\nExecMainStartTimestamp=Mon 2026-11-23 20:56:03.912222 UTC\nStateChangeTimestamp=Mon 2026-11-23 20:56:04.490557 UTC\nActiveEnterTimestamp=Mon 2026-11-23 20:56:04.490557 UTC\n\n"
	const socket = "LoadState=not-found\nActiveState=inactive\nStateChangeTimestamp=Mon 2026-11-23 20:56:09.000009 UTC\nActiveEnterTimestamp=Mon 2026-11-23 20:56:03.841036 UTC\n\n"
	s, exact := statusIn(service + socket + "Now=1795467393640496\nProgram=/opt/x\n")
	want := Status{
		Load: "loaded", Active: "active", PID: 71, Socket: "inactive", Program: "/opt/x",
		Started: time.UnixMicro(1795467363912222).UTC(), Changed: time.UnixMicro(1795467364490557).UTC(), Listening: time.UnixMicro(1795467363841036).UTC(), Now: time.UnixMicro(1795467393640496),
	}
	if !exact || s != want {
		t.Errorf("exact %v, got\n%+v, want\n%+v", exact, s, want)
	}
	for text, want := range map[string]bool{
		"": false, // systemctl does not know what it was told
		"LoadState=not-found\nExecMainStartTimestamp=\n":                         true,
		"LoadState=loaded\nExecMainStartTimestamp=n/a\n":                         true,
		"LoadState=loaded\nExecMainStartTimestamp=Mon 2026-11-23 20:56:03 UTC\n": false,
		"LoadState=loaded\nExecMainStartTimestamp=Mon 2026-11-23 20:56:03 CET\n": false,
		"LoadState=loaded\n\nActiveEnterTimestamp=Mon 2026-11-23 20:56:03 UTC\n": false,
		"LoadState=loaded\nExecMainStartTimestamp=1795467363912222\n":            true,
	} {
		if _, exact := statusIn(text); exact != want {
			t.Errorf("%q: exact is %v", text, exact)
		}
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	s := parseStatus("Result=success\nNRestarts=2\nExecMainStatus=0\nMainPID=71\nMemoryCurrent=18446744073709551615\nStatusText=2 filters, x=1\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nSocketActiveState=active\nExecMainStartTimestamp=1700000000123456\nStateChangeTimestamp=\nSocketActiveEnterTimestamp=1700000000000001\nProgram=/opt/x (deleted)\n")
	if !s.Running() || s.PID != 71 || s.Restarts != 2 || s.Memory != 0 || s.Text != "2 filters, x=1" || s.Program != "/opt/x (deleted)" || s.Started.UnixMicro() != 1700000000123456 || !s.Changed.IsZero() {
		t.Errorf("%+v", s)
	}
	// Earlier restarts are history; those that follow count.
	if before := s.settled(); s.crashed(before) {
		t.Error("old restarts count")
	} else if s.Restarts++; !s.crashed(before) {
		t.Error("fresh restarts do not count")
	}
	for text, want := range map[string]string{
		"LoadState=not-found\nActiveState=inactive\n":                                                     "not installed",
		"LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=203\n":   "failed (failed), exit-code 203",
		"LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nResult=watchdog\nNRestarts=3\n": "activating (auto-restart), watchdog, restarted 3 times",
		"LoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\n":                         "inactive (dead)",
	} {
		if got := parseStatus(text).String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	// A crash loop is recognized at any moment; a daemon that is told to stop is in none.
	for text, want := range map[string]string{
		"ActiveState=activating\nSubState=auto-restart\nResult=exit-code\nNRestarts=0\n": "crash loop",
		"ActiveState=activating\nSubState=start\nResult=success\nNRestarts=2\n":          "crash loop",
		"ActiveState=deactivating\nSubState=stop-post\nResult=exit-code\nNRestarts=3\n":  "crash loop",
		"ActiveState=deactivating\nSubState=stop-post\nResult=exit-code\nNRestarts=0\n":  "deactivating",
		"ActiveState=deactivating\nSubState=stop-sigterm\nResult=success\nNRestarts=3\n": "deactivating",
		"ActiveState=activating\nSubState=start\nResult=success\nNRestarts=0\n":          "activating",
	} {
		if got := parseStatus(text).Short(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPatternsThatTheShellMustNotSee(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a b", "$(id)", "a;b", "'", "a\nb", "~x", "a|b", "{a,b}"} {
		if !unquotable(bad) {
			t.Errorf("%q passes", bad)
		}
	}
	for _, good := range append(unitFiles("urifilter.service"), "/etc/urifilter/redis.password") {
		if unquotable(good) {
			t.Errorf("%q does not pass", good)
		}
	}
}
