package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/load"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// loadFlags are the command line of bench load.
type loadFlags struct {
	conn     connection.Flags
	resp     connection.RESP
	formats  formats
	options  load.Options
	protocol string
	rate     human.Quantity
	capacity human.Quantity
	input    string
}

func newLoad() *cobra.Command {
	f := loadFlags{protocol: string(load.JSON), capacity: human.Quantity{N: 10_000_000}}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Send batches to a daemon, and measure rate and latency",
		Long: `Send batches to a daemon, and measure how many items a second it takes, and how long
a batch waits for its answer.

Without --rate it is a closed loop: each connection sends its next batch when it has its
answer. That finds the greatest rate; its latencies hide that others would have waited
while an answer was late, and the line "corrected" puts them in, as if connections went
on at their median pace. With --rate it is an open loop: so many items a second are
due whatever the answers do, shared by all connections, and latency counts from when a
batch was due. That is what callers see who do not wait for each other.

URIs are made, 66 bytes each, others in each run. The share --duplicates of them, spread
evenly, was sent before and answered; it is compared with what the daemon finds. With
--input they are the lines of a file in their order, from its beginning again after its end.

The run has a filter of its own, which is dropped in the end; that takes a token of the scope
admin. With --filter it asks one that is there, WHICH KEEPS THE ITEMS. Before the time
counts, each connection sends one batch that is new as a whole, and then runs for --warm-up.
Connections are kept open, and use no proxy.

It exits with 1 if a batch failed. Ctrl-C ends the run, shows what was measured until then,
and drops the filter of its own.`,
		Example: `  # how many items a second, and at which latency?
  urifilter bench load --connections 16

  # what do callers see at 500,000 items a second, in batches of 100?
  urifilter bench load --rate 500k --batch 100 --connections 64 --plot latency.svg

  # the lines of a file as text, into a filter that keeps them
  urifilter bench load --filter trial --input links.txt --protocol text --duration 1m

  # what do clients of Redis see?
  urifilter bench load --protocol resp --resp redis://127.0.0.1:6380`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *loadFlags) register(cmd *cobra.Command) {
	f.conn.Register(cmd)
	f.resp.Register(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.IntVarP(&o.Connections, "connections", "c", 4, "`number` of connections, each of which sends one batch at a time")
	flags.IntVarP(&o.Batch, "batch", "b", 1000, "`items` in each batch")
	flags.Float64Var(&o.Duplicates, "duplicates", 0.5, "`share` of items that were sent before, 0 to 1")
	flags.DurationVarP(&o.Duration, "duration", "d", 10*time.Second, "how long to measure")
	flags.DurationVar(&o.WarmUp, "warm-up", time.Second, "how long to run before that")
	flags.Var(&f.rate, "rate", "open loop: `items` a second that are due, such as 500k")
	flags.StringVarP(&f.input, "input", "i", "", "send the lines of a `file`")
	flags.StringVar(&f.protocol, "protocol", f.protocol, "`form` of the batches: "+strings.Join(load.Protocols(), ", ")+"; resp is BF.MADD to the daemon's port for Redis clients, the others are over HTTP")
	flags.StringVar(&o.Filter, "filter", "", "ask this filter, and leave the items in it (default: a filter of the run's own)")
	flags.Var(&f.capacity, "capacity", "`items` that the run's own filter is made for")
	flags.Uint64Var(&o.Seed, "seed", 0, "makes the same URIs as another run with this `number` (default: chosen by chance)")
	f.formats.registerPicture(cmd)
	cmd.MarkFlagsMutuallyExclusive("input", "duplicates")
	cmd.MarkFlagsMutuallyExclusive("input", "seed")
	cmd.MarkFlagsMutuallyExclusive("filter", "capacity")
	for flag, complete := range map[string]cobra.CompletionFunc{
		"protocol": cobra.FixedCompletions(load.Protocols(), cobra.ShellCompDirectiveNoFileComp),
		"filter": func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return f.conn.CompleteFilter(cmd, nil, word)
		},
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flags are defined above
		}
	}
}

// check validates the flags before any call.
func (f *loadFlags) check(cmd *cobra.Command) (connection.Target, error) {
	o := &f.options
	if err := f.formats.check(); err != nil {
		return connection.Target{}, err
	}
	protocol, err := load.ParseProtocol(f.protocol)
	if err != nil {
		return connection.Target{}, usage("--protocol %w", err)
	}
	o.Protocol, o.Rate, o.Timeout = protocol, float64(f.rate.N), f.conn.Timeout
	if !cmd.Flags().Changed("seed") {
		o.Seed = rand.Uint64()
	}
	if err := o.Check(); err != nil {
		return connection.Target{}, usage("--%w", err)
	}
	target, err := f.conn.Target(cmd)
	o.Dial, o.Prefix, o.Token = target.Connect, "", target.Token
	if err == nil {
		o.Host, o.Prefix = target.URL.Host, target.URL.EscapedPath()
	}
	if err == nil && protocol == load.RESP {
		port, err := f.resp.Options(cmd, target.Token)
		if err != nil {
			return target, err
		}
		o.Token = port.Password
		o.Dial = func(ctx context.Context) (net.Conn, error) { return redis.NewDialer(port)(ctx, "tcp", port.Addr) }
	}
	return target, err
}

func (f *loadFlags) run(cmd *cobra.Command) (err error) {
	ctx, o := cmd.Context(), &f.options
	target, err := f.check(cmd)
	if err != nil {
		return err
	}
	if f.input != "" {
		file, err := os.Open(f.input)
		if err != nil {
			return fmt.Errorf("--input: %w", err)
		}
		defer file.Close()
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return usage("--input %s: want a file, which can be read again from its beginning", f.input)
		}
		o.Input, o.Duplicates = load.NewInput(file), 0
	}
	daemon, err := f.conn.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	own := o.Filter == ""
	if own {
		if err := ownFilter(ctx, daemon, o, f.capacity.N); err != nil {
			return err
		}
		defer func() {
			failed := dropFilter(ctx, daemon, o.Filter)
			if err == nil {
				err = failed
			} else if failed != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "urifilter: %v\n", failed)
			}
		}()
	} else {
		if _, err := daemon.GetFilter(ctx, o.Filter); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "the items of this run stay in the filter %s\n", o.Filter)
	}
	p := terminal.NewProgress(cmd.ErrOrStderr(), true)
	o.Show = func(now load.Progress) { p.Show("%s", progressLine(now)) }
	result, err := load.Run(ctx, *o)
	p.Clear()
	if err != nil {
		return explainLoad(err, o.Protocol)
	}
	report := loadReport{
		Server: target.URL.Redacted(), Filter: o.Filter, Kept: !own, Protocol: o.Protocol, Connections: o.Connections, Batch: o.Batch,
		Rate: o.Rate, WarmUpSeconds: o.WarmUp.Seconds(), Input: f.input, Result: result,
	}
	if f.input == "" {
		report.Seed = o.Seed
	}
	if err := f.show(cmd, report); err != nil {
		return err
	}
	if result.Interrupted {
		return context.Cause(ctx)
	}
	return verdict(result)
}

func (f *loadFlags) show(cmd *cobra.Command, report loadReport) error {
	err := f.formats.print(cmd.OutOrStdout(), report, nil, report.write)
	if len(report.Latency.Curve) > 0 {
		err = errors.Join(err, f.formats.draw(report.chart()))
	}
	return err
}

// verdict returns an error if a batch failed, or none got through.
func verdict(result *load.Result) error {
	var failed int64
	var kinds []string
	for _, e := range result.Errors {
		failed += e.Batches
		kinds = append(kinds, fmt.Sprintf("%s %s", human.Count(e.Batches), e.Code))
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%s of %s batches failed: %s", human.Count(failed), human.Count(failed+result.Batches), strings.Join(kinds, ", "))
	case result.Batches == 0:
		return fmt.Errorf("no batch was answered%sgive it a longer --duration", command.HintMark)
	}
	return nil
}

const dropTimeout = 30 * time.Second

// ownFilter makes a filter for this run.
func ownFilter(ctx context.Context, daemon *client.Client, o *load.Options, capacity uint64) error {
	o.Filter = fmt.Sprintf("bench-load-%08x", rand.Uint32())
	_, _, err := daemon.CreateFilter(ctx, o.Filter, client.FilterSpec{Capacity: capacity})
	return explainOwn(err)
}

// dropFilter removes that filter, even after the run was stopped.
func dropFilter(ctx context.Context, daemon *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	if err := daemon.DropFilter(ctx, name); err != nil {
		return fmt.Errorf("the filter of this run is still there: %w%surifilter filters drop %s", err, command.HintMark, name)
	}
	return nil
}
