package mongotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Turns forwards connections to a server, one command at a time, whichever client sends it.
// FerretDB reads documents and writes them back, so that one of two concurrent updates may be
// undone; with turns each command is atomic, as the update of each document is in MongoDB. A
// command whose sender has gone is still carried out, as in MongoDB.
type Turns struct {
	Addr string

	turn sync.Mutex

	mu   sync.Mutex
	lose func(command string) bool
	seen map[string]int
}

// NewTurns starts a Turns in front of the server at the address to.
func NewTurns(t testing.TB, to string) *Turns {
	t.Helper()
	p := &Turns{seen: map[string]int{}}
	p.Addr = testserver.Front(t, to, p.pass)
	return p
}

// URI returns the URI by which clients reach the server through it.
func (p *Turns) URI() string { return "mongodb://" + p.Addr + "/" }

// Lose sets a function that is called with the name of each command once it was carried out: if
// it returns true, the connection is broken instead of passing the answer on. nil: no answer is
// lost.
func (p *Turns) Lose(lose func(command string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

// Commands returns how many commands of each name there were since the last call.
func (p *Turns) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = map[string]int{}
	return seen
}

func (p *Turns) pass(client, server net.Conn) {
	for {
		question, err := readMessage(client)
		if err != nil {
			return
		}
		answer, err := p.carryOut(server, question)
		if err != nil || p.isLost(commandOf(question)) {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

func (p *Turns) carryOut(server net.Conn, question []byte) ([]byte, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if _, err := server.Write(question); err != nil {
		return nil, err
	}
	return readMessage(server)
}

func (p *Turns) isLost(command string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[command]++
	return p.lose != nil && p.lose(command)
}

// readMessage reads a message with its header, which begins with the length of the whole.
func readMessage(r io.Reader) ([]byte, error) {
	const header, limit = 16, 64 << 20
	message := make([]byte, header)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, err
	}
	n := int(int32(binary.LittleEndian.Uint32(message)))
	if n < header || n > limit {
		return nil, fmt.Errorf("message of %d bytes", n)
	}
	message = append(message, make([]byte, n-header)...)
	_, err := io.ReadFull(r, message[header:])
	return message, err
}

// commandOf returns the name of a command: the first key of the document of an OP_MSG; "" for
// other messages.
func commandOf(message []byte) string {
	const opMsg, key = 2013, 16 + 4 + 1 + 4 + 1 // header, flags, kind of section, length, type
	if len(message) < key || binary.LittleEndian.Uint32(message[12:]) != opMsg {
		return ""
	}
	name, _, _ := bytes.Cut(message[key:], []byte{0})
	return string(name)
}
