// Package bench has the daemon's command line put the daemon under load, on the host itself and
// as the service's user: `NAME bench load`. What is measured is that command's matter.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// CLI is the command line on a host.
type CLI struct {
	Program   systemd.Program
	Binary    string // path of the program
	TokenFile string // path of the file with the host's own token; it need not be there
	User      string // of the service
}

// Load are flags of the command; those that are zero are not given.
type Load struct {
	Connections, Batch int
	Duplicates         *float64
	Rate               string // items a second, also as 500k; "": a closed loop
	Duration           time.Duration
	Protocol           string
	Filter             string
}

func (l Load) args() []string {
	args := []string{"--json"}
	flag := func(name, value string, given bool) {
		if given {
			args = append(args, "--"+name+"="+value)
		}
	}
	flag("connections", strconv.Itoa(l.Connections), l.Connections != 0)
	flag("batch", strconv.Itoa(l.Batch), l.Batch != 0)
	if l.Duplicates != nil {
		flag("duplicates", strconv.FormatFloat(*l.Duplicates, 'g', -1, 64), true)
	}
	flag("rate", l.Rate, l.Rate != "")
	flag("duration", l.Duration.String(), l.Duration != 0)
	flag("protocol", l.Protocol, l.Protocol != "")
	flag("filter", l.Filter, l.Filter != "")
	return args
}

// Result is what the toolkit shows of a run.
type Result struct {
	ItemsPerSec float64 `json:"items_per_second"`
	Items       int64   `json:"items"`
	Duplicates  float64 `json:"duplicate_share"`
	Latency     Latency `json:"latency_ms"`
	// Corrected is that of a closed loop, with what it had left out.
	Corrected *Latency `json:"corrected_latency_ms"`
	Errors    []struct {
		Code    string `json:"error_code"`
		Batches int64  `json:"batches"`
	} `json:"errors"`
	Warnings []string `json:"warnings"`
	// All is what the command printed.
	All json.RawMessage `json:"-"`
}

// Latency of batches, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// command runs `NAME bench load` against the daemon at a URL. The token goes from its file into
// the variable that the program reads: it is in no argument. A run that is interrupted on
// the operator's machine gets a hang-up and then SIGTERM, at which the program drops the filter
// that it has made; the hang-up alone would end it before.
func (c CLI) command(url string, l Load) host.Command {
	var words strings.Builder
	for _, a := range l.args() {
		words.WriteString(" " + host.Quote(a))
	}
	script := fmt.Sprintf("trap '' HUP\ncd /\nif [ -r %s ]; then %[2]s=$(cat %[1]s); export %[2]s; fi\nexec %[3]s bench load --server %[4]s%[5]s",
		host.Quote(c.TokenFile), c.Program.Env("TOKEN"), host.Quote(c.Binary), host.Quote(url), words.String())
	return host.Command{Script: script, User: c.User}
}

// Load measures the daemon that is called at a URL on its own host. A run in which batches failed
// has a result, and no error.
func (c CLI) Load(ctx context.Context, h host.Host, url string, l Load) (Result, error) {
	out, err := h.Run(ctx, c.command(url, l))
	var failed *host.CommandError
	if errors.As(err, &failed) {
		out = failed.Output
	}
	if out.Stdout == "" && err != nil {
		return Result{}, c.explain(err, out.Stderr)
	}
	var r Result
	if wrong := json.Unmarshal([]byte(out.Stdout), &r); wrong != nil {
		return Result{}, errors.Join(err, fmt.Errorf("bench load: %w", wrong))
	}
	r.All = json.RawMessage(out.Stdout)
	return r, nil
}

// explain takes the program's own words for an error.
func (c CLI) explain(err error, stderr string) error {
	_, said, _ := strings.Cut("\n"+strings.TrimSpace(stderr), "\n"+c.Program.Name+": ")
	if said == "" {
		return err
	}
	if strings.Contains(said, "unknown command") || strings.Contains(said, "unknown flag") {
		said += "\nhint: its release is older than this command: go tool mage deploy"
	}
	return fmt.Errorf("bench load: %s", said)
}

// Failed is how many batches failed, and of what.
func (r Result) Failed() string {
	if len(r.Errors) == 0 {
		return "0"
	}
	var kinds []string
	for _, e := range r.Errors {
		kinds = append(kinds, fmt.Sprintf("%d %s", e.Batches, e.Code))
	}
	return strings.Join(kinds, ", ")
}

// Honest are the latencies to compare: those of an open loop as they are, of a closed one corrected.
func (r Result) Honest() Latency {
	if r.Corrected != nil {
		return *r.Corrected
	}
	return r.Latency
}
