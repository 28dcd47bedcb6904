//go:build unix

package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/chaos/wallclock"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// restartAfter is how long a daemon that ended by itself stays down: without Redis it does
// not start, and a service manager tries again.
const restartAfter = 200 * time.Millisecond

// daemon is a process of the real program behind a proxy. It is restarted whenever it ends.
type daemon struct {
	name, addr string
	front      *proxy
	resp       *proxy   // for clients of Redis
	net        *netns   // nil: that of this process
	dir        string   // data, log
	binaries   []string // of which each life has the next
	first      int      // whose first life that is
	env        []string
	clock      string // the file with the step of its wall clock; "": none
	since      func() time.Duration

	ended chan struct{} // the supervisor is done

	mu       sync.Mutex
	process  *os.Process // nil while it is down
	life     int
	began    time.Duration // when this life began
	down     time.Duration // how long it stays down the next time
	downs    []history.Down
	stepped  []history.Step // of the clock; At is when it was set
	steps    []history.Step // that restarts may have counted
	finished bool
}

func (d *daemon) supervise() {
	defer close(d.ended)
	for {
		d.mu.Lock()
		if d.finished {
			d.mu.Unlock()
			return
		}
		d.life++
		d.began = d.since()
		cmd, err := d.begin()
		if err == nil {
			d.process = cmd.Process
		}
		d.mu.Unlock()
		if err == nil {
			_ = cmd.Wait()
		}
		d.mu.Lock()
		from := d.since()
		d.process = nil
		pause := d.down
		if d.down == 0 {
			pause = restartAfter
		}
		d.down = 0
		finished := d.finished
		d.mu.Unlock()
		if finished {
			return
		}
		time.Sleep(pause)
		d.mu.Lock()
		// What it wrote last may be a second old, and it takes time to start.
		d.downs = append(d.downs, history.Down{From: from - time.Second, To: d.since() + time.Second})
		d.countSteps(from)
		d.mu.Unlock()
	}
}

func (d *daemon) begin() (*exec.Cmd, error) {
	log, err := os.OpenFile(d.logName(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := d.net.command(d.binaries[(d.first+d.life)%len(d.binaries)], "serve", "--listen", d.addr, "--data-dir", filepath.Join(d.dir, "data"))
	cmd.Env = append(os.Environ(), d.env...)
	if d.clock != "" {
		cmd.Env = append(cmd.Env, wallclock.Variable+"="+d.clock)
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the campaign
	return cmd, cmd.Start()
}

func (d *daemon) logName() string { return filepath.Join(d.dir, "log") }

// end ends the process by a signal; it is restarted after down.
func (d *daemon) end(sig syscall.Signal, down time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil {
		d.down = max(down, time.Millisecond)
		_ = d.process.Signal(sig)
	}
}

// halt stops the process for a while.
func (d *daemon) halt(ctx context.Context, length time.Duration) {
	d.mu.Lock()
	p := d.process
	d.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.Signal(syscall.SIGSTOP)
	pause(ctx, length)
	_ = p.Signal(syscall.SIGCONT)
}

func (d *daemon) lives() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

// http returns a client that bypasses the daemon's proxy and uses a connection for each request.
func (d *daemon) http() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return d.net.dial(d.addr) },
	}}
}

func (d *daemon) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addr+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := d.http().Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// finish stops the daemon for good, gracefully, and returns what is wrong with its end or its log.
func (d *daemon) finish() error {
	d.mu.Lock()
	d.finished = true
	if d.process != nil {
		_ = d.process.Signal(syscall.SIGCONT)
		_ = d.process.Signal(syscall.SIGTERM)
	}
	p := d.process
	d.mu.Unlock()
	var slow error
	select {
	case <-d.ended:
	case <-time.After(90 * time.Second):
		slow = fmt.Errorf("%s does not end on SIGTERM", d.name)
		_ = p.Kill()
		<-d.ended
	}
	text, _ := os.ReadFile(d.logName())
	if at := strings.Index(string(text), "panic:"); at >= 0 {
		return fmt.Errorf("%s panicked:\n%.3000s", d.name, text[at:])
	}
	return slow
}

// pause waits for length, or until ctx ends.
func pause(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}
