package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/systemd"
)

// here runs commands on this machine as if it were a host.
type here struct{ host.Host }

func (here) Run(ctx context.Context, c host.Command) (host.Output, error) {
	var out, errOut strings.Builder
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Script)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	o := host.Output{Stdout: out.String(), Stderr: errOut.String(), Code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = &host.CommandError{Script: "x", Output: o}
	}
	return o, err
}

// script makes a program out of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a program")
	// A process that another test forks meanwhile would have the file open for writing until it
	// calls exec, and a file that is open for writing cannot be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadRunsTheCommandWithTheHostsToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "operator token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	half := 0.5
	c := program.CLI{Program: systemd.Urifilter(), TokenFile: token, Binary: script(t, `
[ "$URIFILTER_TOKEN" = secret ] || exit 9
kill -HUP $$ # ends nothing
printf '{"items_per_second": 12.5, "latency_ms": {"p99": 3}, "corrected_latency_ms": {"p99": 4}, "warnings": ["%s"]}' "$*"
`)}
	r, err := Run(t.Context(), here{}, c, "http://127.0.0.1:8000", Load{Connections: 3, Duplicates: &half, Rate: "5k", Duration: time.Second, Filter: "it's"})
	if err != nil {
		t.Fatal(err)
	}
	want := "bench load --server http://127.0.0.1:8000 --json --connections=3 --duplicates=0.5 --rate=5k --duration=1s --filter=it's"
	if r.ItemsPerSec != 12.5 || r.Honest().P99 != 4 || len(r.Warnings) != 1 || r.Warnings[0] != want || r.Failed() != "0" {
		t.Errorf("got %+v", r)
	}
	if strings.Contains(command(c, "u", Load{}).Script, "secret") {
		t.Error("the token is in the command")
	}
}

func TestLoadThatFails(t *testing.T) {
	t.Parallel()
	c := program.CLI{Program: systemd.Urifilter(), TokenFile: "/none", Binary: script(t, `
echo '{"items": 7, "latency_ms": {"p50": 1}, "errors": [{"error_code": "overloaded", "batches": 3}, {"error_code": "timeout", "batches": 1}]}'
echo "urifilter: 4 of 9 batches failed" >&2
exit 1`)}
	r, err := Run(t.Context(), here{}, c, "u", Load{})
	if err != nil || r.Failed() != "3 overloaded, 1 timeout" || r.Items != 7 || r.Honest().P50 != 1 {
		t.Errorf("batches that failed: got %+v, %v", r, err)
	}
	for text, want := range map[string]string{
		`echo "urifilter: no daemon" >&2; echo "hint: start it" >&2; exit 1`: "bench load: no daemon\nhint: start it",
		`echo 'urifilter: unknown command "load"' >&2; exit 2`:               "hint: its release is older",
		`echo odd`: "bench load: invalid character",
		`exit 3`:   "exit code 3",
	} {
		c.Binary = script(t, text)
		if _, err := Run(t.Context(), here{}, c, "u", Load{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
