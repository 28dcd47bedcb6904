package remote

import (
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// channel is a session of sshd for one command. Unlike an ssh.Session it does not wait for the answers
// of sshd in between: on a long line a command takes the time of one round trip, and not of three.
type channel struct {
	ssh.Channel
	ended  chan struct{} // closed when sshd has said how the command ended, or will not say it
	status error         // then: nil, an *exitError, or *ssh.ExitMissingError
}

// exitError is the end of a command with another exit code than 0.
type exitError struct {
	status int
	signal string // "": it ended by itself
}

func (e *exitError) Error() string { return "the command has ended" }

// signals are the numbers of those that RFC 4254 names.
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
}

// newChannel opens a session.
func newChannel(client *ssh.Client) (*channel, error) {
	ch, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, err
	}
	c := &channel{Channel: ch, ended: make(chan struct{}), status: &ssh.ExitMissingError{}}
	go c.listen(requests)
	return c, nil
}

// listen ends with the session.
func (c *channel) listen(requests <-chan *ssh.Request) {
	defer close(c.ended)
	for r := range requests {
		switch r.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				c.status = nil
				if m.Status != 0 {
					c.status = &exitError{status: int(m.Status)}
				}
			}
		case "exit-signal":
			var m struct {
				Signal     string
				CoreDumped bool
				Error      string
				Lang       string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				c.status = &exitError{status: 128 + signals[m.Signal], signal: m.Signal}
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil) // the end of the session says whether that failed
		}
	}
}

// start has the host run a command, whose output goes to two writers. It does not wait for sshd to agree: one
// that does not ends the session, or is noticed by silence.
func (c *channel) start(command string) error {
	_, err := c.SendRequest("exec", false, ssh.Marshal(struct{ Command string }{command}))
	return err
}

// wait copies the output until the command has ended, and returns how.
func (c *channel) wait(stdout, stderr io.Writer) error {
	var copies sync.WaitGroup
	failed := make([]error, 2)
	copies.Go(func() { _, failed[0] = io.Copy(stdout, c.Channel) })
	copies.Go(func() { _, failed[1] = io.Copy(stderr, c.Channel.Stderr()) })
	<-c.ended
	copies.Wait()
	if c.status != nil {
		return c.status
	}
	return errors.Join(failed...)
}

// alive reports whether the session can still run a command.
func (c *channel) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// spares keep sessions open for the next commands, so that opening them costs no time.
type spares struct {
	mu      sync.Mutex
	ready   []*channel
	opening int
	none    bool // sshd has refused one
}

// maxSpares is how many: the one that replaces another is on its way when the next command begins.
const maxSpares = 1

// take returns an open session, nil if there is none.
func (s *spares) take() *channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ready) > 0 {
		c := s.ready[0]
		s.ready = s.ready[1:]
		if c.alive() {
			return c
		}
	}
	return nil
}

// wanted reports whether another is to be opened, and counts it.
func (s *spares) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.none || len(s.ready)+s.opening >= maxSpares {
		return false
	}
	s.opening++
	return true
}

// open opens one that is wanted.
func (s *spares) open(client *ssh.Client) {
	c, err := newChannel(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening--
	if err != nil {
		s.none = true // its MaxSessions may be low
		return
	}
	s.ready = append(s.ready, c)
}

// beginsWithin is how long a command may take to begin, on a host that is busy. An sshd that runs no
// commands says nothing.
const beginsWithin = 3 * time.Minute
