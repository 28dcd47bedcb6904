package job

import (
	"strings"
	"testing"
	"time"
)

// The address of a list may have a password in it, which no error shows.
func TestListErrorsShowNoPassword(t *testing.T) {
	for _, from := range []string{"http://me:s3c/ret@h/list", "http://me:s3c%zzret@h/list", "http://me:s3cret@127.0.0.1:1/list"} {
		if _, err := openList(t.Context(), from); err == nil || strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), "ret@") {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// The master says nothing until all tasks are added, dropped, or wait again: minutes, if there are millions.
func TestCommandsWaitForManyTasks(t *testing.T) {
	for name, want := range map[string]time.Duration{"drop": time.Hour, "retry": time.Hour, "uris": time.Hour, "add": time.Hour, "change": time.Hour, "list": time.Minute} {
		cmd, _, err := NewCommand().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cmd.Flags().GetDuration("timeout"); err != nil || got != want || cmd.Flag("timeout").DefValue != want.String() {
			t.Errorf("%s: waits %s, %v, and says %s", name, got, err, cmd.Flag("timeout").DefValue)
		}
	}
}
