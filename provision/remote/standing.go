package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/host"
)

// standing is a shell that stays on the host, and runs one after the other what only looks at it. Once it
// is there, a look takes one round trip, also as root by a password, and those that come together take it
// together; a session of its own for a look takes up to three. What is left of one look, such as variables, is
// not seen by the next. A look that gets no answer from the shell is run in a session of its own: it
// changes nothing, and may be run twice.
type standing struct {
	requests chan string // texts for its input
	closed   chan struct{}
	stop     context.CancelFunc // ends it with all that runs in it
	ended    chan struct{}      // closed when it has ended; then the next two are valid
	began    bool
	err      error

	mu      sync.Mutex
	refuses bool        // it takes no more questions
	waiting [2][]*asked // in their order: those without the end of their stdout, and of their stderr
}

// asked is a look that a standing shell runs.
type asked struct {
	word   string
	texts  [2]*output
	code   int
	left   int // outputs that have not ended
	answer chan struct{}
}

// maxAsked bounds the looks that wait for the shell to read them.
const maxAsked = 256

// standingLoop reads the word of a look, the number of its lines, its input in base64 or -, and its lines.
const standingLoop = `_r='
'
while IFS= read -r _w && IFS= read -r _n && IFS= read -r _i; do
	_s=
	while [ "$_n" -gt 0 ]; do IFS= read -r _l || exit 125; _s=$_s$_l$_r; _n=$((_n-1)); done
	if [ "$_i" = - ]; then (eval "$_s") </dev/null; else printf %s "$_i" | base64 -d | (eval "$_s"); fi
	_n=$?
	printf '\n%s %d\n' "$_w" "$_n"
	printf '\n%s %d\n' "$_w" "$_n" >&2
done`

// standings are the standing shells of a connection.
type standings struct {
	mu   sync.Mutex
	of   map[identity]*standing
	none bool // sshd allows few sessions, or one of them did not work
}

// look has the standing shell of an identity run a command. If it does not answer, the error is nil and
// answered is false.
func (c *Conn) look(ctx context.Context, as identity, cmd host.Command) (out host.Output, answered bool, err error) {
	input, known := host.Input(cmd)
	if !known || as.user != "" || strings.Contains(cmd.Script, "\x00") || ctx.Err() != nil {
		return host.Output{}, false, nil
	}
	s := c.standing(as)
	if s == nil {
		return host.Output{}, false, nil
	}
	coded := "-"
	if cmd.Stdin != nil {
		coded = base64.StdEncoding.EncodeToString([]byte(input))
	}
	q := s.ask(cmd.Script, coded)
	if q == nil {
		return host.Output{}, false, nil
	}
	select {
	case <-q.answer:
	case <-s.ended:
	case <-ctx.Done():
		s.stop() // what it runs may go on for long
		<-s.ended
		return host.Output{}, true, context.Cause(ctx)
	}
	select {
	case <-q.answer:
		return host.Output{Stdout: q.texts[0].text(), Stderr: q.texts[1].text(), Code: q.code}, true, nil
	default:
	}
	if s.began || as.password == "" || errors.Is(s.err, context.Canceled) { // nothing was refused
		return host.Output{}, false, nil
	}
	return host.Output{}, true, s.err // a password that sudo did not take is not tried again
}

// standing returns the shell of an identity, and starts it; nil: there will be none.
func (c *Conn) standing(as identity) *standing {
	c.standings.mu.Lock()
	defer c.standings.mu.Unlock()
	if s := c.standings.of[as]; s != nil || c.standings.none {
		return s
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &standing{requests: make(chan string, maxAsked), closed: make(chan struct{}), stop: stop, ended: make(chan struct{})}
	if !c.link.Start(func() { s.run(ctx, c, as) }) {
		stop()
		return nil
	}
	if c.standings.of == nil {
		c.standings.of = map[identity]*standing{}
	}
	c.standings.of[as] = s
	return s
}

// run returns when the shell has ended.
func (s *standing) run(ctx context.Context, c *Conn, as identity) {
	r := newRunning(c, as, host.Command{Script: standingLoop, Stdin: &requests{s, nil}}, true)
	r.room = c.shells
	r.stdout.next, r.stderr.next = func(p []byte) { s.hear(0, p) }, func(p []byte) { s.hear(1, p) }
	_, s.err = c.execute(ctx, r)
	s.began = r.stdout.hasBegun()
	s.close()
	s.stop()
	c.standings.mu.Lock()
	if c.standings.of[as] == s {
		delete(c.standings.of, as)
	}
	c.standings.none = c.standings.none || ctx.Err() == nil && !s.began
	c.standings.mu.Unlock()
	close(s.ended)
}

// close has the shell end when it has answered what it was asked.
func (s *standing) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.refuses {
		s.refuses = true
		close(s.closed)
	}
}

// giveUp closes the shells: sshd allows few sessions.
func (s *standings) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.none = true
	for _, one := range s.of {
		one.close()
	}
	s.of = nil
}

// ask sends a look to the shell; nil: it takes none.
func (s *standing) ask(script, input string) *asked {
	q := &asked{word: newWord(), left: len(s.waiting), answer: make(chan struct{})}
	for i := range q.texts {
		q.texts[i] = newOutput(q.word)
	}
	text := fmt.Sprintf("%s\n%d\n%s\n%s\n", q.word, linesOf(script), input, script)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses {
		return nil
	}
	select {
	case s.requests <- text:
	default:
		return nil
	}
	for i := range s.waiting {
		s.waiting[i] = append(s.waiting[i], q)
	}
	return q
}

// requests is the input of a standing shell.
type requests struct {
	s    *standing
	rest []byte
}

// Read implements io.Reader.
func (r *requests) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		select {
		case text := <-r.s.requests:
			r.rest = []byte(text)
		case <-r.s.closed: // what was asked before is still answered
			select {
			case text := <-r.s.requests:
				r.rest = []byte(text)
			default:
				return 0, io.EOF
			}
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// hear takes what the shell writes to its stdout (0) or stderr (1).
func (s *standing) hear(stream int, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p = slices.Clone(p); len(s.waiting[stream]) > 0; {
		q := s.waiting[stream][0]
		o := q.texts[stream]
		rest, code, ended := o.until(p, "\n"+q.word+" ")
		if !ended {
			return
		}
		q.code, p = code, rest
		s.waiting[stream] = s.waiting[stream][1:]
		if q.left--; q.left == 0 {
			close(q.answer)
		}
	}
}

// until keeps what was written up to a mark, behind which a number and the end of the line stand. It
// returns what follows them.
func (o *output) until(p []byte, mark string) (rest []byte, number int, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(p)
	at := bytes.Index(o.kept, []byte(mark))
	if at < 0 {
		return nil, 0, false
	}
	digits, rest, ended := bytes.Cut(o.kept[at+len(mark):], []byte("\n"))
	if !ended {
		return nil, 0, false
	}
	number, err := strconv.Atoi(string(digits))
	if err != nil {
		number = 125 // nobody else writes the mark
	}
	rest = slices.Clone(rest)
	o.kept = o.kept[:at]
	return rest, number, true
}
