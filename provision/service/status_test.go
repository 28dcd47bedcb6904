package service

import (
	"testing"
)

func TestParseStatus(t *testing.T) {
	t.Parallel()
	s := parseStatus("Result=success\nNRestarts=2\nExecMainStatus=0\nMainPID=71\nMemoryCurrent=18446744073709551615\nStatusText=2 filters, x=1\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nSocket=active\nStarted=1700000000123456\nChanged=\nListening=1700000000000001\nProgram=/opt/x (deleted)\n")
	if !s.Running() || s.PID != 71 || s.Restarts != 2 || s.Memory != 0 || s.Text != "2 filters, x=1" || s.Program != "/opt/x (deleted)" || s.Started.UnixMicro() != 1700000000123456 || !s.Changed.IsZero() {
		t.Errorf("%+v", s)
	}
	// The restarts of before are history, those that come count.
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
	// At any moment of a crash loop; a daemon that is told to stop is in none.
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
