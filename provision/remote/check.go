package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
)

// Checked is the result of ssh:check for a host.
type Checked struct {
	Host   string
	Target string // user@address:port; "" if it was not reached
	// Err is why the toolkit cannot use it: unreachable, or no way to become root.
	Err   error
	Root  string // how we are root: "by sudo"
	Facts host.Facts
	// Disks are the file systems of /opt, /var/lib and /tmp.
	Disks []Disk
	// Skew is how far its clock is ahead of ours, 0 if that is less than the time that the
	// question took.
	Skew time.Duration
	// Warnings are problems that the operator may want to fix.
	Warnings []string
}

// Disk is a file system of a host.
type Disk struct {
	Path       string // where it is mounted
	Free, Size int64  // bytes
}

// Check looks at hosts, all at once, and changes nothing.
func (d *Dialer) Check(ctx context.Context, hosts []inventory.Host) []Checked {
	checked := make([]Checked, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { checked[i] = d.check(ctx, h) })
	}
	wg.Wait()
	return checked
}

func (d *Dialer) check(ctx context.Context, h inventory.Host) Checked {
	r := Checked{Host: h.Name}
	c, err := d.Dial(ctx, h)
	if err != nil {
		r.Err = err
		return r
	}
	defer c.Close()
	r.Target = c.Target()
	var errs []error
	if r.Facts, err = host.FactsOf(ctx, c); err != nil {
		errs = append(errs, err)
	}
	if err := r.look(ctx, c); err != nil {
		errs = append(errs, err)
	}
	if r.Root, err = c.Root(ctx); err != nil {
		errs = append(errs, err)
	}
	r.Err = errors.Join(errs...)
	r.warn()
	return r
}

// look asks for disks and time, for the time in a command of its own, so that the round
// trip is short.
func (r *Checked) look(ctx context.Context, c *Conn) error {
	out, err := c.Run(ctx, host.Command{Script: "df -Pk /opt /var/lib /tmp"})
	if err != nil {
		return err
	}
	r.Disks = parseDisks(out.Stdout)
	begun := time.Now()
	if out, err = c.Run(ctx, host.Command{Script: "date +%s.%N"}); err != nil {
		return err
	}
	took := time.Since(begun)
	seconds, err := strconv.ParseFloat(strings.TrimSpace(out.Stdout), 64)
	if err != nil {
		return fmt.Errorf("date wrote %q", out.Stdout)
	}
	there := time.Unix(0, int64(seconds*1e9))
	if skew := there.Sub(begun.Add(took / 2)); skew.Abs() > took/2 {
		r.Skew = skew.Round(time.Millisecond)
	}
	return nil
}

func parseDisks(text string) []Disk {
	var disks []Disk
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		free, freeErr := strconv.ParseInt(fields[3], 10, 64)
		if err != nil || freeErr != nil { // the heading
			continue
		}
		d := Disk{Path: strings.Join(fields[5:], " "), Free: free << 10, Size: size << 10}
		if len(disks) == 0 || disks[len(disks)-1] != d {
			disks = append(disks, d)
		}
	}
	return disks
}

func (r *Checked) warn() {
	add := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if f := r.Facts; f.OS != "" {
		if f.Arch != "amd64" && f.Arch != "arm64" {
			add("its processor is %s: the daemon is built for amd64 and arm64", f.Arch)
		}
		if f.Systemd == 0 {
			add("it does not run systemd, which the service needs")
		}
	}
	if r.Skew.Abs() > 2*time.Second {
		add("its clock differs from this machine's by %s: is its time kept (chrony, systemd-timesyncd)?", r.Skew.Round(time.Second))
	}
	for _, d := range r.Disks {
		if d.Free < 200<<20 {
			add("%s has %s left", d.Path, mebibytes(d.Free))
		}
	}
}
