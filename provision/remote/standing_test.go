package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// What looks is run by one shell, one after the other, as if each had a session of its own.
func TestLooksShareAShell(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	run(t, c, host.Command{Script: "true", Look: true})
	first := c.standings.of[identity{}]
	long := strings.Repeat("0123456789abcdef", maxOutput/16+7)
	for _, r := range []struct {
		script string
		want   host.Output
	}{
		{`printf 'no end'; printf 'of a line' >&2`, host.Output{Stdout: "no end", Stderr: "of a line"}},
		{"", host.Output{}},
		{"_s=x; _w=y; _n=9; a=1; cd /tmp; umask 077; set -e -u x; exec 2>&1; trap 'echo end' EXIT", host.Output{Stdout: "end\n"}},
		{`false; echo "$a" "$PWD" $(umask) $#; cat; echo on stderr >&2`, host.Output{Stdout: " / 0022 0\n", Stderr: "on stderr\n"}},
	} {
		if got := run(t, c, host.Command{Script: r.script, Look: true}); got != r.want {
			t.Errorf("%q: got %+v, want %+v", r.script, got, r.want)
		}
	}
	if out := run(t, c, host.Command{Script: "printf %s " + long, Watch: true}); !strings.HasPrefix(out.Stdout, "[") || !strings.HasSuffix(out.Stdout, long[len(long)-maxOutput:]) {
		t.Errorf("a long output: %d bytes, %.60q", len(out.Stdout), out.Stdout)
	}
	_, err := c.Run(t.Context(), host.Command{Script: "echo bad >&2; exit 3", Look: true})
	var failed *host.CommandError
	if !errors.As(err, &failed) || failed.Output != (host.Output{Stderr: "bad\n", Code: 3}) {
		t.Errorf("got %v", err)
	}
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			if out, err := c.Run(t.Context(), host.Command{Script: fmt.Sprintf("echo %d; echo %[1]d >&2; exit %[1]d", n), OK: []int{n}, Look: true}); err != nil || out != (host.Output{Stdout: fmt.Sprintln(n), Stderr: fmt.Sprintln(n), Code: n}) {
				t.Errorf("%d: got %+v, %v", n, out, err)
			}
		})
	}
	all.Wait()
	if first == nil || c.standings.of[identity{}] != first {
		t.Error("the shell was not the same for all")
	}
	run(t, c, host.Command{Script: "true"})
}

// A shell that ends takes no look with it: each is run in a session of its own.
func TestShellThatEnds(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	run(t, c, host.Command{Script: "true", Look: true})
	for range 2 {
		// $$ is the shell, or the session's own.
		if out := run(t, c, host.Command{Script: `[ -n "$_w" ] && kill -9 $$; echo here`, Look: true}); out.Stdout != "here\n" {
			t.Errorf("got %+v", out)
		}
	}
	if out := run(t, c, host.Command{Script: "echo after", Look: true}); out.Stdout != "after\n" {
		t.Errorf("got %+v", out)
	}
}

// The end of a look's context ends what it runs on the host, and leaves others their answers.
func TestLookThatIsEnded(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	begun := t.TempDir() + "/begun"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, host.Command{Script: "echo $$ >" + begun + "; exec sleep 4322", Watch: true})
		ended <- err
	}()
	for text, _ := os.ReadFile(begun); !strings.HasSuffix(string(text), "\n"); text, _ = os.ReadFile(begun) {
		time.Sleep(10 * time.Millisecond)
	}
	other := make(chan error, 1)
	go func() {
		out, err := c.Run(t.Context(), host.Command{Script: "echo other", Look: true})
		if err == nil && out.Stdout != "other\n" {
			err = fmt.Errorf("got %+v", out)
		}
		other <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
	out := run(t, c, host.Command{Script: "grep -lsaF 'sleep\x1f4322' /proc/[0-9]*/cmdline || :"})
	if out.Stdout != "" {
		t.Errorf("it still runs: %s", out.Stdout)
	}
}
