package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// leaser is a caller of a daemon's filter, for package leasetest.
type leaser struct {
	p      *processtest.Process
	filter string
}

// post makes a call for items.
func (l leaser) post(path string, items []int, more map[string]any, into any) error {
	body := map[string]any{"filter_typeid": l.filter, "uri_list": leased(items)}
	for key, value := range more {
		body[key] = value
	}
	text, _ := json.Marshal(body)
	status, answer, err := l.p.Post(context.Background(), "/api/v1/"+path, string(text))
	switch {
	case err != nil, strings.Contains(answer, "outcome_unknown"):
		return leasetest.ErrUnknown
	case status == http.StatusServiceUnavailable:
		return leasetest.ErrNothing
	case status != http.StatusOK:
		return fmt.Errorf("%s: status %d: %.300s", path, status, answer)
	}
	return json.Unmarshal([]byte(answer), into)
}

func leased(items []int) (texts []string) {
	for _, n := range items {
		texts = append(texts, fmt.Sprintf("https://example.com/page/%d", n))
	}
	return texts
}

// among reports which items a list has.
func among(items []int, list []string) []bool {
	has := map[string]bool{}
	for _, text := range list {
		has[text] = true
	}
	is := make([]bool, len(items))
	for i, text := range leased(items) {
		is[i] = has[text]
	}
	return is
}

func (l leaser) Reserve(items []int, lease time.Duration) ([]bool, string, error) {
	var got client.ReserveResult[string]
	err := l.post("reserve", items, map[string]any{"lease": lease.Seconds()}, &got)
	return among(items, got.URIList), got.Reservation, err
}

func (l leaser) Settle(commit bool, name string, items []int) ([]bool, error) {
	var got client.SettleResult[string]
	path := map[bool]string{true: "commit", false: "release"}[commit]
	err := l.post(path, items, map[string]any{"reservation": name}, &got)
	return among(items, got.Lost), err
}

func (l leaser) Add(items []int) ([]bool, error) {
	var got client.FilterResult[string]
	err := l.post("filter", items, nil, &got)
	return among(items, got.URIList), err
}

// pair is two daemons that share a store, and can be killed. Several goroutines may use it.
type pair struct {
	dirs [2]string
	env  []string

	mu      sync.Mutex
	daemons [2]*processtest.Process
}

func startPair(t *testing.T, env []string) *pair {
	p := &pair{dirs: [2]string{t.TempDir(), t.TempDir()}, env: env}
	for i := range p.daemons {
		p.daemons[i] = processtest.Start(t, p.dirs[i], env)
	}
	return p
}

func (p *pair) daemon(i int) *processtest.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.daemons[i%2]
}

// kill kills a daemon and starts it again at its address.
func (p *pair) kill(t *testing.T, i int) {
	t.Helper()
	was := p.daemon(i)
	_ = was.End(syscall.SIGKILL)
	next := processtest.BeginAt(t, was.Addr, p.dirs[i], p.env).AwaitReady()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.daemons[i] = next
}

// reserveUnderKills lets callers of both daemons reserve from filters, each with a ledger, and kills
// the daemons and the store alternately: no item is held by two callers, committed items are not given
// out again, and nothing is held for longer than its lease.
func (p *pair) reserveUnderKills(t *testing.T, kills int, ledgers map[string]*leasetest.Ledger, killStore func()) {
	t.Helper()
	done := make(chan struct{})
	var callers sync.WaitGroup
	for filter, l := range ledgers {
		for i := range 16 / len(ledgers) {
			callers.Go(func() {
				l.Run(func() leasetest.Caller { return leaser{p.daemon(i), filter} }, done)
			})
		}
	}
	for kill := 0; kill < kills && !t.Failed(); kill++ {
		for filter, l := range ledgers {
			want := l.Answers() + 60
			for deadline := time.Now().Add(5 * time.Minute); l.Answers() < want && l.Faults() == nil; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Errorf("kill %d: nobody is answered about %s\n%s", kill, filter, p.daemon(0).Log)
					break
				}
			}
		}
		if i := kill % 3; i < 2 {
			p.kill(t, i)
		} else {
			killStore()
		}
	}
	close(done)
	callers.Wait()
	p.daemon(0).AwaitReady()
	for filter, l := range ledgers {
		l.Check(t, leaser{p.daemon(0), filter})
	}
	for i := range p.daemons {
		if err := p.daemon(i).End(syscall.SIGTERM); err != nil || strings.Contains(p.daemon(i).Log.String(), "panic") {
			t.Errorf("daemon %d: %v\n%s", i, err, p.daemon(i).Log)
		}
	}
}
