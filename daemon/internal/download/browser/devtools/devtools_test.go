package devtools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// peer is the other end of a Conn.
type peer struct {
	*Conn
	in     *bufio.Reader // what the browser receives
	out    *io.PipeWriter
	events chan Event
}

func newPeer(t *testing.T, limit int) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{in: bufio.NewReader(inR), out: outW, events: make(chan Event, 10)}
	p.Conn = New(inW, outR, Options{MaxMessage: limit, Handle: func(e Event) { p.events <- e }})
	t.Cleanup(func() { _ = outW.Close(); <-p.Done() })
	return p
}

func (p *peer) say(text string) {
	_, _ = io.WriteString(p.out, text+"\x00") // it may be gone
}

// Answers find their calls in any order, events come in theirs, and errors name the call.
func TestCalls(t *testing.T) {
	p := newPeer(t, 1000)
	type result struct {
		n   int
		err error
	}
	results := make(chan result, 2)
	call := func(method string) {
		var got struct{ N int }
		err := p.Call(t.Context(), "s", method, map[string]int{"a": 1}, &got)
		results <- result{got.N, err}
	}
	go call("A.a")
	first, err := p.in.ReadString(0)
	if err != nil || first != `{"id":1,"sessionId":"s","method":"A.a","params":{"a":1}}`+"\x00" {
		t.Fatalf("sent %q, %v", first, err)
	}
	go call("B.b")
	if _, err := p.in.ReadString(0); err != nil {
		t.Fatal(err)
	}
	p.say(`{"method":"E.e","sessionId":"s","params":{"x":1}}`)
	p.say(`{"id":99,"result":{}}`) // of no known call
	p.say(`{"id":2,"error":{"code":-32000,"message":"no"}}`)
	var refused *Error
	if r := <-results; !errors.As(r.err, &refused) || r.err.Error() != "B.b: no" {
		t.Errorf("got %v", r.err)
	}
	p.say(`{"id":1,"result":{"n":7}}`)
	if r := <-results; r.err != nil || r.n != 7 {
		t.Errorf("got %+v", r)
	}
	if e := <-p.events; e.Method != "E.e" || e.Session != "s" || string(e.Params) != `{"x":1}` {
		t.Errorf("got %+v", e)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() { _, _ = p.in.ReadString(0); cancel(why) }()
	if err := p.Call(ctx, "", "C.c", nil, nil); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// A message that is too long or invalid ends the connection and all its calls.
func TestBadMessages(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"result":"` + strings.Repeat("x", 1000): ErrTooLong.Error(),
		`{"id":`:    "invalid message",
		`[1]`:       "invalid message",
		`{"id":""}`: "invalid message",
	} {
		p := newPeer(t, 1000)
		go func() { _, _ = p.in.ReadString(0); p.say(text) }()
		if err := p.Call(t.Context(), "", "A.a", nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", text, err, want)
		}
		_ = p.out.Close()
	}
}

func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Add([]byte(`{"method":"E.e","params":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		handled := 0
		c := &Conn{o: Options{Handle: func(Event) { handled++ }}, waiting: map[int64]call{1: {"A.a", make(chan answer, 1)}}}
		if err := c.handleMessage(text); err != nil && handled > 0 {
			t.Error(fmt.Errorf("handled, and refused: %w", err))
		}
	})
}
