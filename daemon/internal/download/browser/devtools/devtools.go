// Package devtools speaks the DevTools protocol of Chromium over two pipes: calls and their
// answers, and events. Messages of the browser are bounded and not trusted, because a page may have
// taken the browser over. The package does not know which calls exist.
//
// Existing libraries keep all events that a browser sends, however many, and messages of any
// length, so they are not used.
package devtools

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrTooLong is wrapped when a message of the browser is longer than Options.MaxMessage.
var ErrTooLong = errors.New("message of the browser is too long")

// Event is a message that the browser sends unasked.
type Event struct {
	Session string // "": of the browser itself
	Method  string
	Params  json.RawMessage
}

// Options are those of a Conn. All must be given.
type Options struct {
	MaxMessage int // bytes of one message of the browser
	// Handle is called with each event, in order, by the one goroutine that reads: it must return
	// quickly, and make no Call.
	Handle func(Event)
}

// Conn is a connection to a browser. Its methods may be called by several goroutines.
type Conn struct {
	o  Options
	in io.Writer

	writing sync.Mutex

	mu      sync.Mutex // guards the fields below
	number  int64
	waiting map[int64]call
	err     error // why the connection has ended

	done chan struct{}
}

// call is a call that waits for its answer.
type call struct {
	method   string
	answered chan answer // has room for one
}

type answer struct {
	result json.RawMessage
	err    error
}

// message is a message as sent, in either direction.
type message struct {
	ID      int64           `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is the browser's answer to a call that it refuses.
type Error struct {
	Method  string `json:"-"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Method, e.Message) }

// New makes a Conn, which reads until out ends.
func New(in io.Writer, out io.Reader, o Options) *Conn {
	c := &Conn{o: o, in: in, waiting: map[int64]call{}, done: make(chan struct{})}
	go c.read(bufio.NewReaderSize(out, 64<<10))
	return c
}

// Done is closed when the browser sends nothing more; Err then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection has ended: io.EOF if the browser has ended.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Call calls a method with params, nil for none, and reads its result, nil for none. The error is an
// *Error, that of ctx, or that of the connection.
func (c *Conn) Call(ctx context.Context, session, method string, params, result any) error {
	answered := make(chan answer, 1)
	number, err := c.send(session, method, params, answered)
	if err != nil {
		return err
	}
	defer c.forget(number)
	select {
	case a := <-answered:
		if a.err != nil || result == nil {
			return a.err
		}
		if err := json.Unmarshal(a.result, result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return fmt.Errorf("%s: %w", method, c.Err())
	}
}

// Tell is a Call that does not wait for the answer.
func (c *Conn) Tell(session, method string, params any) error {
	_, err := c.send(session, method, params, nil)
	return err
}

func (c *Conn) send(session, method string, params any, answered chan answer) (int64, error) {
	m := message{Session: session, Method: method}
	if params != nil {
		text, err := json.Marshal(params)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", method, err)
		}
		m.Params = text
	}
	c.mu.Lock()
	c.number++
	m.ID = c.number
	if answered != nil {
		c.waiting[m.ID] = call{method, answered}
	}
	c.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", method, err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.in.Write(append(text, 0)); err != nil {
		c.forget(m.ID)
		return 0, fmt.Errorf("%s: %w", method, err)
	}
	return m.ID, nil
}

func (c *Conn) forget(number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, number)
}

func (c *Conn) read(out *bufio.Reader) {
	defer close(c.done)
	for {
		text, err := c.message(out)
		if err == nil {
			err = c.handleMessage(text)
		}
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
			return
		}
	}
}

// message reads one message, without the zero byte that ends it.
func (c *Conn) message(out *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := out.ReadSlice(0)
		if len(text)+len(part) > c.o.MaxMessage {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLong, c.o.MaxMessage)
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		default:
			return text[:len(text)-1], nil
		}
	}
}

func (c *Conn) handleMessage(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("the browser sent an invalid message: %w", err)
	}
	if m.ID == 0 {
		c.o.Handle(Event{Session: m.Session, Method: m.Method, Params: m.Params})
		return nil
	}
	c.mu.Lock()
	to, ok := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	if !ok {
		return nil
	}
	a := answer{result: m.Result}
	if m.Error != nil {
		m.Error.Method = to.method
		a.err = m.Error
	}
	to.answered <- a
	return nil
}
