package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// SSHSetup makes a key if there is none, records the keys of hosts after showing their
// fingerprints, and puts the key on them. Fingerprints, comma-separated, are trusted.
func (t *Toolkit) SSHSetup(ctx context.Context, fingerprints string) error {
	o := login.Confirmation{Yes: t.o.Yes, Fingerprints: words(fingerprints)}
	if term.IsTerminal(int(t.o.Stdin.Fd())) {
		o.Confirm = func(_ context.Context, question string) (bool, error) { return t.yes(question) }
	}
	var failed []error
	for _, p := range t.dialer.Setup(ctx, t.hosts, o) {
		var did []string
		for _, name := range p.Trusted {
			did = append(did, "trusts "+name)
		}
		if p.Installed {
			did = append(did, "put the key "+p.Key+" there")
		}
		switch {
		case p.Err != nil:
			failed = append(failed, p.Err)
			fmt.Fprintf(t.errs, "%s: %s\n", p.Host, t.masker.Mask(p.Err.Error()))
		case len(did) == 0:
			fmt.Fprintf(t.out, "%s: unchanged, %s is accepted\n", p.Host, p.Key)
		default:
			fmt.Fprintf(t.out, "%s: %s\n", p.Host, strings.Join(did, ", "))
		}
	}
	return verdict(ctx, failed, len(t.hosts))
}

// verdict returns the error of a target that has already shown the error of each host.
func verdict(ctx context.Context, failed []error, of int) error {
	if ctx.Err() != nil {
		return &fleet.Error{Code: fleet.CodeInterrupted, Err: errors.New("interrupted")}
	}
	if len(failed) == 0 {
		return nil
	}
	code := fleet.CodeUnreachable
	for _, err := range failed {
		if !errors.As(err, new(*host.ConnectionError)) {
			code = fleet.CodeFailed
		}
	}
	return &fleet.Error{Code: code, Err: fmt.Errorf("%d of %d hosts: see above", len(failed), of)}
}

// SSHCheck shows for each host whether it lets us in, who becomes root there and how, and its
// facts.
func (t *Toolkit) SSHCheck(ctx context.Context) error {
	table := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tLOGIN\tROOT\tSYSTEM\tARCH\tFREE\tCLOCK")
	var failed []error
	var notes []string
	for _, c := range t.dialer.Check(ctx, t.hosts) {
		if c.Err != nil {
			failed = append(failed, c.Err)
			notes = append(notes, c.Host+": "+c.Err.Error())
		}
		for _, w := range c.Warnings {
			notes = append(notes, c.Host+": warning: "+w)
		}
		if c.Target == "" {
			fmt.Fprintf(table, "%s\t-\t\t\t\t\t\n", c.Host)
			continue
		}
		var free []string
		for _, d := range c.Disks {
			free = append(free, fmt.Sprintf("%s %d MB", d.Path, d.Free/1e6))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Host, c.Target, c.Root, c.Facts.Name, c.Facts.Arch, strings.Join(free, ", "), c.Skew.Round(time.Millisecond))
	}
	flush(table)
	for _, n := range notes {
		fmt.Fprintln(t.errs, t.masker.Mask(n))
	}
	return verdict(ctx, failed, len(t.hosts))
}
