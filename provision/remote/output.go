package remote

import (
	"bytes"
	"fmt"
	"sync"
)

// mostOutput is how much of an output is kept, at least; the beginning of a longer one is dropped.
const mostOutput = 1 << 20

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

// mostBefore bounds what is kept of the output before the word.
const mostBefore = 64 << 10

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
	} else if o.before.Len() > mostBefore {
		o.before.Next(o.before.Len() - mostBefore/2)
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
	if over := len(o.kept) - mostOutput; over > mostOutput/2 {
		o.dropped += int64(over)
		o.kept = append(o.kept[:0], o.kept[over:]...)
	}
}

// text returns what the command wrote; if a part was dropped, it says so.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if over := len(o.kept) - mostOutput; over > 0 {
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
