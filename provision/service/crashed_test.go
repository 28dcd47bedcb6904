package service

import "testing"

func TestWhatACrashIs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ActiveState=failed\nSubState=failed\nResult=exit-code\nNRestarts=19":      true,
		"ActiveState=failed\nSubState=failed\nResult=start-limit-hit":              true,
		"ActiveState=activating\nSubState=auto-restart\nResult=signal":             true,
		"ActiveState=activating\nSubState=start\nNRestarts=2":                      true,
		"ActiveState=activating\nSubState=start\nNRestarts=0":                      false,
		"ActiveState=active\nSubState=running\nResult=success\nNRestarts=3":        false,
		"ActiveState=inactive\nSubState=dead\nResult=success":                      false,
		"LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success": false,
	} {
		if got := parseStatus(text).Crashed(); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
