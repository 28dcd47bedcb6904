package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// A step that has nothing to undo, because what it made is to stay, is not reported as undone.
func TestNothingToUndo(t *testing.T) {
	t.Parallel()
	s := &scene{}
	one := undone{s.change("a", "one", nil), func(context.Context, host.Host, error) (string, error) { return "", nil }}
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", one, s.change("a", "two", broken))}}}, s.options())
	wantCode(t, err, CodeFailed)
	if last := sum.Results[len(sum.Results)-1]; last.Step != "undo one" || last.Status != report.OK {
		t.Errorf("last result: %+v", last)
	}
}

// The error of a step that a lost connection has ended gives one hint, at its end.
func TestALossHasOneHint(t *testing.T) {
	t.Parallel()
	cut := errors.New("the connection was cut\nhint: look at the host")
	for want, err := range map[string]error{
		"lock lost: the connection was cut (ask systemd: the connection was cut)\nhint: look at the host": &lossError{fmt.Errorf("lock lost: %w", cut), fmt.Errorf("ask systemd: %w", cut)},
		"lock lost (the connection was cut)\nhint: look at the host":                                      &lossError{errors.New("lock lost"), cut},
		"lock lost (cut)": &lossError{errors.New("lock lost"), errors.New("cut")},
	} {
		if err.Error() != want {
			t.Errorf("got %s\nwant %s", err, want)
		}
	}
	if !errors.Is(&lossError{errBroken, cut}, cut) {
		t.Error("the step's own error is lost")
	}
}

// A command that fails because of the disk gives a hint, whatever the command is; a step's own
// hint takes precedence.
func TestHintForTheDisk(t *testing.T) {
	t.Parallel()
	full := &host.CommandError{Host: "a", Script: "cat", Output: host.Output{Code: 1, Stderr: "cat: write error: No space left on device\n"}}
	fixed := &host.CommandError{Host: "a", Script: "cp", Output: host.Output{Code: 1, Stderr: "cp: one\ncp: cannot create regular file 'x': Read-only file system\n"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{full, "\nhint: `df -h`"}, {fmt.Errorf("write x: %w", fixed), "\nhint: `findmnt -T PATH`"}, {fmt.Errorf("%w\nhint: of the step", full), "on device\nhint: of the step"},
	} {
		if got := (Result{Err: c.err}).errorText(); !strings.Contains(got, c.want) || strings.Count(got, "hint:") != 1 {
			t.Errorf("got %s\nwant %s in it", got, c.want)
		}
	}
}
