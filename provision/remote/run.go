package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// Run runs a command as host.Host describes. The script is run by /bin/sh in / with a plain
// environment, whatever shell and start-up files the login has. A Read of its Stdin that
// blocks does not delay Run once the command has ended.
func (c *Conn) Run(ctx context.Context, cmd host.Command) (host.Output, error) {
	as, err := c.become(ctx, cmd)
	if err != nil {
		return host.Output{}, err
	}
	var out host.Output
	answered := false
	if cmd.Look || cmd.Watch {
		out, answered, err = c.look(ctx, as, cmd)
	}
	if !answered {
		out, err = c.exec(ctx, as, cmd, true)
	}
	if err != nil || out.Code == 0 || slices.Contains(cmd.OK, out.Code) {
		return out, err
	}
	bad := &host.CommandError{Host: c.Name(), Output: host.Output{Code: out.Code}}
	if !cmd.Secret {
		bad.Script, bad.Output = title(cmd.Script), out
	}
	return out, bad
}

// title returns what is shown of a script: its first line, shortened.
func title(script string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(script), "\n")
	const limit = 80
	if len(line) > limit {
		cut := limit
		for !utf8.RuneStart(line[cut]) {
			cut--
		}
		return line[:cut] + "..."
	}
	if rest != "" {
		line += " ..."
	}
	return line
}

// sudoWait is how long sudo may take to check a password that it has accepted before. After
// that its input is closed, so that sudo cannot read another try from what is meant for the
// script.
const sudoWait = 30 * time.Second

// exec runs a command to its end, however it ends. With kill, the end of ctx also ends the
// command on the host.
func (c *Conn) exec(ctx context.Context, as identity, cmd host.Command, kill bool) (host.Output, error) {
	if err := ctx.Err(); err != nil {
		return host.Output{}, context.Cause(ctx)
	}
	if strings.Contains(cmd.Script, "\x00") {
		return host.Output{}, errors.New("a script with a NUL in it cannot be run")
	}
	if as.user != "" {
		cmd.Script = fmt.Sprintf("HOME=~%s USER=%[1]s LOGNAME=%[1]s; export HOME USER LOGNAME\n%s", as.user, cmd.Script)
	}
	return c.execute(ctx, newRunning(c, as, cmd, kill))
}

// execute runs what exec has checked.
func (c *Conn) execute(ctx context.Context, r *running) (host.Output, error) {
	ended := make(chan error, 1)
	if !c.link.Start(func() { ended <- r.run(ctx) }) {
		return host.Output{}, c.lost(net.ErrClosed)
	}
	select {
	case err := <-ended:
		return r.result(err)
	case <-ctx.Done():
	}
	c.link.Start(func() {
		if r.kills {
			c.kill(context.WithoutCancel(ctx), r.as, r.word)
		}
		r.end()
	})
	select {
	case <-ended:
	case <-time.After(c.dialer.killWait + time.Second): // the connection may be dead
	}
	return host.Output{}, context.Cause(ctx)
}

// running is a command under way.
type running struct {
	conn           *Conn
	as             identity
	cmd            host.Command
	word           string
	room           chan struct{} // of which it takes a session
	kills          bool          // it is ended on the host when its context ends; false: it ends others
	stdout, stderr *output

	mu      sync.Mutex
	session io.Closer
	over    bool
	unread  error // how reading the command's input failed
}

func newRunning(c *Conn, as identity, cmd host.Command, kill bool) *running {
	word, room := newWord(), c.sessions
	if !kill {
		room = c.reserve
	}
	return &running{conn: c, as: as, cmd: cmd, word: word, room: room, kills: kill, stdout: newOutput(word), stderr: newOutput(word)}
}

// run starts the command and returns when it has ended.
func (r *running) run(ctx context.Context) error {
	session, give, err := r.conn.channel(ctx, r.room)
	if err != nil {
		return err
	}
	defer give()
	defer session.Close()
	if !r.begin(session) {
		return context.Cause(ctx)
	}
	line := commandLine(r.as.prefix, r.word, linesOf(r.cmd.Script), r.cmd.Stdin == nil)
	if r.short() {
		line = shortLine(r.as.prefix, r.word, r.cmd.Script)
	}
	if err := session.start(line); err != nil {
		return err
	}
	exited := make(chan struct{})
	// run does not wait for feed: the reader may block for as long as it likes. The writes of
	// feed end with the session.
	go r.feed(ctx, input{session}, exited)
	go r.expect(session, exited)
	err = session.wait(r.stdout, r.stderr)
	close(exited)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unread != nil {
		return fmt.Errorf("input of the command: %w", r.unread)
	}
	return err
}

// input is the standard input of a command: its end is not that of the session.
type input struct{ *channel }

func (i input) Close() error { return i.CloseWrite() }

// expect ends a session in which nothing begins.
func (r *running) expect(session io.Closer, exited <-chan struct{}) {
	wait := time.NewTimer(beginsWithin)
	defer wait.Stop()
	select {
	case <-r.stdout.begun:
	case <-exited:
	case <-wait.C:
		r.mu.Lock()
		r.unread = fmt.Errorf("sshd has begun no command within %s", beginsWithin)
		r.mu.Unlock()
		session.Close()
	}
}

// begin records the session; it returns false if it is too late for one.
func (r *running) begin(s io.Closer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = s
	return !r.over
}

// end ends the session.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.session != nil {
		r.session.Close()
	}
}

// short reports whether the script is part of the command line.
func (r *running) short() bool {
	return r.cmd.Stdin == nil && len(r.cmd.Script) <= maxShort
}

// feed writes the password, the script and the command's input. If writing fails, the end of
// the session says so; if reading the input fails, feed ends the command, because it would
// take the end of the input for a real one.
func (r *running) feed(ctx context.Context, stdin io.WriteCloser, exited <-chan struct{}) {
	defer stdin.Close()
	if r.as.password != "" {
		if _, err := io.WriteString(stdin, r.as.password+"\n"); err != nil || r.short() {
			return
		}
		wait := time.NewTimer(r.conn.dialer.sudoWait)
		defer wait.Stop()
		select {
		case <-r.stdout.begun:
		case <-exited:
			return
		case <-wait.C:
			return
		}
	}
	if r.short() {
		return
	}
	if _, err := io.WriteString(stdin, preamble(r.word, r.cmd.Script)); err != nil || r.cmd.Stdin == nil {
		return
	}
	source := &source{Reader: r.cmd.Stdin}
	if _, _ = io.Copy(stdin, source); source.err != nil {
		r.mu.Lock()
		r.unread = source.err
		r.mu.Unlock()
		r.conn.kill(ctx, r.as, r.word)
		r.end()
	}
}

// source remembers how reading failed, to distinguish that from how writing failed.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// result says how the command ended.
func (r *running) result(err error) (host.Output, error) {
	out := host.Output{Stdout: r.stdout.text(), Stderr: r.stderr.text()}
	var exit *exitError
	var missing *ssh.ExitMissingError
	if errors.As(err, &missing) {
		// The session may see the end of the connection before we do.
		select {
		case <-r.conn.link.Ended():
		case <-time.After(time.Second):
		}
	}
	switch {
	case err == nil:
	case errors.As(err, new(*host.ConnectionError)):
		return out, err
	case errors.As(err, &exit):
		out.Code = exit.status
		if s := exit.signal; s != "" {
			out.Stderr = strings.TrimRight(out.Stderr, "\n") + "\nended by signal " + s + "\n"
		}
	case errors.As(err, &missing) && r.conn.link.Alive():
		// sshd sends no exit code if it is restarted, or ended, in the middle.
		return out, r.conn.lost(errors.New("sshd ended the session without an exit code"))
	case !r.conn.link.Alive() || login.IsHangUp(err) || errors.As(err, &missing):
		return out, r.conn.lost(err)
	default:
		return out, fmt.Errorf("%s: %w", r.conn.Name(), err)
	}
	if !r.stdout.hasBegun() {
		return host.Output{}, r.notBegun(out.Code)
	}
	return out, nil
}

// notBegun returns the error for a login that did not run its command.
func (r *running) notBegun(code int) error {
	said := strings.TrimSpace(r.stderr.noise() + "\n" + r.stdout.noise())
	if r.as.sudo && !strings.Contains(said, "runuser:") {
		return r.conn.sudoError(said, r.as.password != "")
	}
	if r.as.user != "" {
		return fmt.Errorf("%s: run as %s: exit code %d: %s", r.conn.Name(), r.as.user, code, host.LastLine(said))
	}
	return fmt.Errorf("%s: the login %s runs no commands: exit code %d: %s\nhint: see what this says: %s",
		r.conn.Name(), r.conn.Target(), code, host.LastLine(said), r.conn.link.Target().Call("true"))
}

// loader is what the login shell of a host runs, whatever shell it is: the text contains
// nothing that any of them (sh, bash, zsh, fish, csh) would change within single quotes. It
// says on both outputs that it has begun, which separates what start-up files write from
// what the command writes. Then it reads lines until one with the same word, which skips a
// password that sudo did not ask for; then the script, which thus may be of any length and
// appears in no list of processes. What follows is for the script.
//
// Commands keep the word in their environment, by which they are found when they must be ended.
//
// $0 is the word, $1 the number of the script's lines, $2 is "1" if nothing follows.
const loader = `LC_ALL=C; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; DEBIAN_FRONTEND=noninteractive; ` +
	`TOOLKIT_RUN=$0; export LC_ALL PATH DEBIAN_FRONTEND TOOLKIT_RUN; umask 022; cd /; ` +
	`echo "$0"; echo "$0" >&2; ` +
	`_l=; until [ "$_l" = "$0" ]; do IFS= read -r _l || exit 125; done; ` +
	`_n=$1; _e=$2; _s=; _r=$(printf "\nx"); _r=${_r%x}; ` +
	`while [ "$_n" -gt 0 ]; do IFS= read -r _l || exit 125; _s=$_s$_l$_r; _n=$((_n-1)); done; ` +
	`shift 2; [ "$_e" = 1 ] && exec </dev/null; unset _l _n _e _r; eval "$_s"`

// shortLoader is the loader for a short script without input. The script is the
// argument $1, in base64, which no shell changes: sshd accepts no input before it has begun to run a
// command, so that a script that is sent after it comes a round trip later. Scripts have no secrets in them.
const shortLoader = `LC_ALL=C; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; DEBIAN_FRONTEND=noninteractive; ` +
	`TOOLKIT_RUN=$0; export LC_ALL PATH DEBIAN_FRONTEND TOOLKIT_RUN; umask 022; cd /; ` +
	`echo "$0"; echo "$0" >&2; _s=$(printf %s "$1" | base64 -d) || exit 125; shift; exec </dev/null; eval "$_s"`

// maxShort bounds such a script, in bytes: some shells have short words.
const maxShort = 8 << 10

// shortLine is commandLine for a short script.
func shortLine(as, word, script string) string {
	return fmt.Sprintf("exec env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin %s/bin/sh -c '%s' %s %s",
		as, shortLoader, word, base64.StdEncoding.EncodeToString([]byte(script)))
}

// commandLine returns what sshd must run; as is the prefix that changes the user, if any.
func commandLine(as, word string, lines int, noInput bool) string {
	empty := 0
	if noInput {
		empty = 1
	}
	return fmt.Sprintf("exec env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin %s/bin/sh -c '%s' %s %d %d",
		as, loader, word, lines, empty)
}

// preamble returns what the loader reads, up to where the command's own input begins.
func preamble(word, script string) string { return word + "\n" + script + "\n" }

func linesOf(script string) int { return strings.Count(script, "\n") + 1 }

// newWord returns a word that no host writes by itself.
func newWord() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return "urifilter-" + hex.EncodeToString(random[:])
}

// maxOutput is how much of an output is kept, at least; the beginning of a longer one is dropped.
const maxOutput = 1 << 20

// output collects what a command writes, after the line with the word. It is safe for
// concurrent use.
type output struct {
	word  string
	begun chan struct{} // closed at the word
	next  func([]byte)  // gets what is written after the word; nil: it is kept

	mu      sync.Mutex
	before  bytes.Buffer // what start-up files, or sudo, wrote
	started bool
	kept    []byte
	dropped int64
}

func newOutput(word string) *output { return &output{word: word, begun: make(chan struct{})} }

// maxBefore bounds what is kept of the output before the word.
const maxBefore = 64 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		o.pass(p)
		return len(p), nil
	}
	o.before.Write(p)
	// The word may follow text without a line end.
	if at := bytes.Index(o.before.Bytes(), []byte(o.word+"\n")); at >= 0 {
		o.started = true
		o.pass(o.before.Bytes()[at+len(o.word)+1:])
		o.before.Truncate(at)
		close(o.begun)
	} else if o.before.Len() > maxBefore {
		o.before.Next(o.before.Len() - maxBefore/2)
	}
	return len(p), nil
}

func (o *output) pass(p []byte) {
	if o.next != nil {
		o.next(p)
		return
	}
	o.keep(p)
}

func (o *output) keep(p []byte) {
	o.kept = append(o.kept, p...)
	if over := len(o.kept) - maxOutput; over > maxOutput/2 {
		o.dropped += int64(over)
		o.kept = append(o.kept[:0], o.kept[over:]...)
	}
}

// text returns what the command wrote; if a part was dropped, it says so.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if over := len(o.kept) - maxOutput; over > 0 {
		o.dropped += int64(over)
		o.kept = o.kept[over:]
	}
	if o.dropped > 0 {
		return fmt.Sprintf("[%d bytes left out]\n%s", o.dropped, o.kept)
	}
	return string(o.kept)
}

// noise returns what was written before the command began.
func (o *output) noise() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.before.String()
}

func (o *output) hasBegun() bool {
	select {
	case <-o.begun:
		return true
	default:
		return false
	}
}
