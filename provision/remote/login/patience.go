package login

import (
	"net"
	"strings"
	"sync"
	"time"
)

// patience ends something that says nothing for too long, but lets people think.
type patience struct {
	mu    sync.Mutex
	limit time.Duration
	timer *time.Timer
	gone  bool // it took too long
	done  bool
}

func newPatience(limit time.Duration, end func()) *patience {
	p := &patience{limit: limit}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(limit, func() {
		p.mu.Lock()
		p.gone = !p.done
		p.mu.Unlock()
		if p.over() {
			end()
		}
	})
	return p
}

// renew restarts the clock. After end it does nothing: host keys are checked again when
// a long connection exchanges new keys.
func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.timer.Reset(p.limit)
	}
}

// pause stops the clock until the function that it returns is called.
func (p *patience) pause() func() {
	p.timer.Stop()
	return p.renew
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.timer.Stop()
}

func (p *patience) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// listener keeps the first bytes that the other side sends.
type listener struct {
	net.Conn
	mu    sync.Mutex
	first []byte
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := 80 - len(l.first); room > 0 {
		l.first = append(l.first, p[:min(n, room)]...)
	}
	return n, err
}

// other returns the first line from a server that does not speak SSH, else "". An sshd that
// has no room for us may say so in plain words.
func (l *listener) other() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, _, _ := strings.Cut(string(l.first), "\n")
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "SSH-") || strings.HasPrefix(line, "Exceeded MaxStartups") || strings.HasPrefix(line, "Not allowed at this time") {
		return ""
	}
	return line
}
