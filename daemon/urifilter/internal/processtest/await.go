package processtest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// AwaitReady waits until the daemon may be sent requests.
func (p *Process) AwaitReady() *Process {
	t := p.T
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.Done:
			t.Fatalf("the daemon ended at once: %v\n%s", p.Err, p.Log)
		default:
		}
		if status, _, err := p.Get("/readyz"); err == nil && status == http.StatusOK {
			return p
		}
	}
	t.Fatalf("not ready after 2 min\n%s", p.Log)
	return nil
}

// AwaitLive waits until the daemon answers, which it does before it is ready.
func AwaitLive(t testing.TB, p *Process) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if status, _, err := p.Get("/livez"); err == nil && status == http.StatusOK {
			return
		}
	}
	t.Fatalf("not live after 2 min\n%s", p.Log)
}

// AwaitLog waits until the daemon has logged a text.
func (p *Process) AwaitLog(text string) {
	p.T.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(p.Log.String(), text) {
			return
		}
	}
	p.T.Fatalf("never logged %q\n%s", text, p.Log)
}

// Eventually waits for a condition that others bring about.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
