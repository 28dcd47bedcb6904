package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/mysqltest"
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
		return leasetest.ErrDoubt
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

// among tells which items a list has.
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

// Two daemons share a MariaDB. Each of the three is killed at random moments while 16 callers reserve,
// commit and release: no item is held by two, what is committed is given out no more, and nothing is
// stuck.
func TestKill9ReservingMySQL(t *testing.T)       { kill9ReservingMySQL(t, 6) }
func TestSystemKill9ReservingMySQL(t *testing.T) { kill9ReservingMySQL(t, 60) }

func kill9ReservingMySQL(t *testing.T, rounds int) {
	t.Parallel()
	server := mysqltest.Start(t)
	env := processtest.OnMySQL(t, server)
	var mu sync.Mutex
	dirs := []string{t.TempDir(), t.TempDir()}
	daemons := []*processtest.Process{processtest.Start(t, dirs[0], env), processtest.Start(t, dirs[1], env)}
	daemon := func(i int) *processtest.Process { mu.Lock(); defer mu.Unlock(); return daemons[i] }
	l := leasetest.New(1000 * (rounds/10 + 2))
	done := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			l.Run(func() leasetest.Caller { return leaser{daemon(i % 2), "pages"} }, done)
		})
	}
	for round := range rounds {
		want := l.Answers() + 20 + rand.IntN(100)
		for deadline := time.Now().Add(2 * time.Minute); l.Answers() < want && l.Faults() == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("round %d: nobody is answered\n%s", round, daemon(0).Log)
				break
			}
		}
		if i := round % 3; i < 2 {
			addr := daemon(i).Addr
			_ = daemon(i).End(syscall.SIGKILL)
			p := processtest.BeginAt(t, addr, dirs[i], env).AwaitReady()
			mu.Lock()
			daemons[i] = p
			mu.Unlock()
		} else {
			server.Kill()
			server.Run()
		}
	}
	close(done)
	callers.Wait()
	daemon(0).AwaitReady()
	l.Check(t, leaser{daemon(0), "pages"})
	for i := range daemons {
		if err := daemon(i).End(syscall.SIGTERM); err != nil || strings.Contains(daemon(i).Log.String(), "panic") {
			t.Errorf("daemon %d: %v\n%s", i, err, daemon(i).Log)
		}
	}
}
