package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

const (
	codeHeld   = 75 // EX_TEMPFAIL of sysexits.h: another run holds the lock
	beatEvery  = 5 * time.Second
	firstBeat  = 100 * time.Millisecond
	silentTime = 60 // seconds without a beat after which the host gives the lock up
)

// LockInfo describes the run that holds a lock.
type LockInfo struct {
	Who  string // "alice@laptop"
	What string // "deploy"
	Run  string

	silence int // seconds without a keepalive; 0: silentTime
}

// LockedError reports that another run holds the host.
type LockedError struct {
	Host string
	LockInfo
	// From is the address that it connected from, Since when by the host's clock; "":
	// not known.
	From, Since string
	For         time.Duration
	PID         string // of the process that holds the lock on the host
}

func (e *LockedError) Error() string {
	text := "locked by " + cmp.Or(e.Who, "another run")
	if e.From != "" {
		text += " (from " + e.From + ")"
	}
	if e.Since != "" {
		text += fmt.Sprintf(" since %s (%s)", e.Since, e.For.Round(time.Second))
	}
	if e.What != "" {
		text += fmt.Sprintf(": %s, run %s", e.What, e.Run)
	}
	text += fmt.Sprintf("\nhint: wait until it has ended; when its laptop is gone or asleep, the lock ends by itself %d s after its last heartbeat", silentTime)
	if e.PID != "" {
		text += fmt.Sprintf(", or at once by `kill %s` as root on %s", e.PID, e.Host)
	}
	return text
}

// errLockLost ends the work on a host that has dropped our lock.
var errLockLost = errors.New("lock lost: the process that held it on the host has ended")

// lock is held by a command on the host, which runs as long as it receives heartbeats.
// It ends with its standard input, and so with the connection.
type lock struct {
	stop func() // ends the command's input
	kill context.CancelFunc

	ended chan struct{} // closed when the command has ended; then the next two are valid
	out   host.Output
	err   error

	mu    sync.Mutex
	ours  bool // it was had, and has not been given back
	early bool // the command ended while it was ours
}

// acquire locks h, and calls lost when the lock is lost before it is released. The lock
// outlives ctx, so that what was begun can be undone under it.
func acquire(ctx context.Context, h host.Host, info LockInfo, lost func(error)) (*lock, error) {
	nonce := rand.Text()
	input := &beats{done: make(chan struct{}), next: firstBeat}
	holding, kill := context.WithCancel(context.WithoutCancel(ctx))
	l := &lock{ended: make(chan struct{}), stop: sync.OnceFunc(func() { close(input.done) }), kill: kill}
	go func() {
		defer close(l.ended)
		l.out, l.err = h.Run(holding, host.Command{
			Script: holdScript(host.LockPath, info, nonce), Stdin: input, Root: true, OK: []int{codeHeld},
		})
		l.mu.Lock()
		l.early = true
		ours := l.ours
		l.mu.Unlock()
		if ours {
			lost(l.loss())
		}
	}()

	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := h.Run(asking, host.Command{Script: askScript(host.LockPath, nonce), Root: true})
		asked <- err
	}()
	var err error
	select {
	case err = <-asked:
	case <-l.ended:
		cancel()
		<-asked
	}
	if err == nil && l.claim() {
		return l, nil
	}
	l.release(context.WithoutCancel(ctx), time.Second)
	switch {
	case l.err == nil && l.out.Code == codeHeld: // says more than the question's error
		return nil, refusal(h.Name(), l.out.Stdout)
	case err == nil:
		err = l.loss()
	}
	return nil, fmt.Errorf("lock %s: %w", host.LockPath, err)
}

// claim marks the lock as ours unless it has already been lost.
func (l *lock) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ours = !l.early
	return l.ours
}

// loss returns the reason why the command has ended.
func (l *lock) loss() error {
	if l.err != nil {
		return fmt.Errorf("%w: %w", errLockLost, l.err)
	}
	return errLockLost
}

// release ends the command cleanly within the limit, and hangs up after that.
func (l *lock) release(ctx context.Context, limit time.Duration) {
	l.mu.Lock()
	l.ours = false
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.stop()
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
	l.kill()
	<-l.ended
}

// beats is the input of the command that holds a lock: a heartbeat of one byte every few
// seconds, more often in the beginning, until done.
type beats struct {
	done chan struct{}
	next time.Duration
}

// Read implements io.Reader.
func (b *beats) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	wait := time.NewTimer(b.next)
	defer wait.Stop()
	b.next = min(2*b.next, beatEvery)
	select {
	case <-b.done:
		return 0, io.EOF
	case <-wait.C:
		p[0] = 'x'
		return 1, nil
	}
}

// holdScript takes the lock or prints its holder, and ends with its input. The file is
// opened without truncation, by root only; the nonce is written last. Children do not inherit the
// descriptor, so the lock ends with this process.
func holdScript(path string, info LockInfo, nonce string) string {
	return fmt.Sprintf(`file=%s
umask 077
exec 9<>"$file" || exit 73
flock -n -E %d 9
case $? in
0) ;;
%d)
	grep -qs '^nonce=' "$file" || sleep 0.3
	cat "$file"
	echo "for=$(($(date +%%s) - $(stat -c %%Y "$file")))"
	exit %d ;;
*) exit 69 ;;
esac
{
	printf '%%s\n' %s %s %s
	echo "since=$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)"
	echo "from=${SSH_CLIENT%%%% *}"
	echo "pid=$$"
	echo %s
} >"$file"
while [ -n "$(exec 9>&-; exec timeout %d head -c 1)" ]; do :; done
: >"$file"
`, host.Quote(path), codeHeld, codeHeld, codeHeld,
		host.Quote("who="+oneLine(info.Who)), host.Quote("what="+oneLine(info.What)),
		host.Quote("run="+oneLine(info.Run)), host.Quote("nonce="+nonce), cmp.Or(info.silence, silentTime))
}

// askScript waits until the lock is held under nonce.
func askScript(path, nonce string) string {
	return fmt.Sprintf(`for i in $(seq 100); do
	grep -qsx %s %s && exit 0
	sleep 0.1
done
echo "not had within 10 s" >&2
exit 1
`, host.Quote("nonce="+nonce), host.Quote(path))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func refusal(name, content string) *LockedError {
	m := host.Pairs(content, "=")
	e := &LockedError{Host: name, From: m["from"], Since: m["since"], PID: m["pid"]}
	e.LockInfo = LockInfo{Who: m["who"], What: m["what"], Run: m["run"]}
	e.For, _ = time.ParseDuration(m["for"] + "s") // 0 for what is no number
	return e
}
