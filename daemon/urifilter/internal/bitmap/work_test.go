package bitmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// An archive that cannot be reached is asked once, not for each filter: it takes many seconds to
// find out. Other errors concern one filter.
func TestDeadArchiveIsAskedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		asked int
	}{
		"opened here":      {fmt.Errorf("archive: %w", archive.ErrUnreachable), 1},
		"by a daemon":      {fmt.Errorf("call: %w", &client.Error{Problem: client.Problem{Status: 503, ErrorCode: problem.ArchiveUnavailable}}), 1},
		"something else":   {errors.New("damaged"), 3},
		"another daemon's": {&client.Error{Problem: client.Problem{Status: 409, ErrorCode: problem.LeaseHeld}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			w := &work{ctx: t.Context(), flags: &commonFlags{quiet: true}, out: &out, err: &errOut}
			asked := 0
			err := w.each([]string{"a", "b", "c"}, func(string, archive.Progress) (outcome, error) {
				asked++
				return outcome{}, c.err
			})
			if asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
			for _, filter := range []string{"a: ", "b: ", "c: "} {
				if err == nil || !strings.Contains(err.Error(), filter) {
					t.Errorf("the error does not name %s: %v", filter, err)
				}
			}
		})
	}
}

// A run that is stopped between two filters has not done all, and says so by its exit code.
func TestStoppedBetweenFilters(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var out, errOut bytes.Buffer
	w := &work{ctx: ctx, flags: &commonFlags{quiet: true}, out: &out, err: &errOut}
	stop := command.Signaled{Signal: syscall.SIGTERM}
	err := w.each([]string{"a", "b"}, func(string, archive.Progress) (outcome, error) {
		cancel(stop) // after the answer
		return outcome{Done: "written"}, nil
	})
	if !errors.Is(err, stop) || !strings.Contains(out.String(), "a: written") {
		t.Errorf("got %v, want %v; printed %q", err, stop, out.String())
	}
	err = w.each([]string{"a"}, func(string, archive.Progress) (outcome, error) { return outcome{Done: "written"}, nil })
	if err != nil {
		t.Errorf("stopped after the last: %v", err)
	}
}
