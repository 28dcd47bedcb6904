package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

// A crasher is a client whose items are numbered: it knows which of them were
// acknowledged, and which were in a batch without an answer.
type crasher struct {
	id    int
	next  int
	acked [][2]int // ranges of items
	lost  [][2]int // ranges whose answer never came
}

func (c *crasher) item(n int) string {
	return fmt.Sprintf("https://site-%d.example/page/%d?q=新", c.id, n)
}

func (c *crasher) body(r [2]int) string {
	items := make([]string, 0, r[1]-r[0])
	for n := r[0]; n < r[1]; n++ {
		items = append(items, c.item(n))
	}
	text, _ := json.Marshal(map[string]any{"filter_typeid": "uri", "uri_list": items})
	return string(text)
}

// load sends batches until one fails.
func (c *crasher) load(p *process) error {
	for {
		r := [2]int{c.next, c.next + 1 + rand.IntN(1200)}
		c.next = r[1]
		status, answer, err := p.post(context.Background(), "/api/v1/filter", c.body(r))
		if err != nil {
			c.lost = append(c.lost, r)
			return nil // killed
		}
		var got client.FilterResult[string]
		if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil {
			return fmt.Errorf("client %d: status %d: %s", c.id, status, answer)
		}
		c.acked = append(c.acked, r)
		// False positives are allowed, a few in ten thousand.
		if n := r[1] - r[0]; got.Total != n || len(got.URIList) < n-5 {
			return fmt.Errorf("client %d: %d of %d new items are new", c.id, len(got.URIList), n)
		}
	}
}

// mustRemember asks for items and wants none of them new.
func (c *crasher) mustRemember(p *process, ranges [][2]int) error {
	for _, r := range ranges {
		status, answer, err := p.post(context.Background(), "/api/v1/filter", c.body(r))
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("status %d, %v: %s", status, err, answer)
		}
		if !strings.Contains(answer, `"uri_list":[]`) {
			return fmt.Errorf("client %d: of the acknowledged items %v some are new again: %.200s", c.id, r, answer)
		}
	}
	return nil
}

// The real binary under load from several clients is killed at random moments, some
// of them while it starts: no acknowledged item is ever new again.
func TestKill9(t *testing.T)       { kill9(t, 10) }
func TestSystemKill9(t *testing.T) { kill9(t, 60) }

func kill9(t *testing.T, rounds int) {
	t.Parallel()
	dir := t.TempDir()
	// Many checkpoints, so that some of the kills fall into one: a bit-map of 37 MB and
	// a quarter of it in the journal.
	env := []string{`URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 12000000}]`, "URIFILTER_CHECKPOINT_BYTES=1MiB"}
	clients := make([]*crasher, 4)
	for i := range clients {
		clients[i] = &crasher{id: i}
	}
	each := func(f func(*crasher) error) {
		t.Helper()
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() {
				if err := f(c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	checked := make([]int, len(clients)) // acked ranges that were verified once after a crash
	for round := range rounds {
		if round%7 == 6 { // killed while it recovers
			p := begin(t, dir, env)
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			_ = p.end(syscall.SIGKILL)
		}
		durability := []string{"always", "always", "interval", "none"}[round%4]
		p := start(t, dir, env, "--durability", durability)
		each(func(c *crasher) error {
			sample := c.acked[checked[c.id]:]
			for range min(10, checked[c.id]) { // and some older ones
				sample = append(sample[:len(sample):len(sample)], c.acked[rand.IntN(checked[c.id])])
			}
			checked[c.id] = len(c.acked)
			return c.mustRemember(p, sample)
		})
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.log)
		}
		killer := time.AfterFunc(time.Duration(5+rand.IntN(250))*time.Millisecond, func() { p.signal(syscall.SIGKILL) })
		each(func(c *crasher) error { return c.load(p) })
		killer.Stop()
		<-p.done
		if strings.Contains(p.log.String(), "panic") {
			t.Fatalf("round %d:\n%s", round, p.log)
		}
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "verify", "--data-dir", dir).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	p := start(t, dir, env)
	items := 0
	each(func(c *crasher) error { return c.mustRemember(p, c.acked) })
	for _, c := range clients {
		for _, r := range c.acked {
			items += r[1] - r[0]
		}
		// A batch without an answer is remembered or not; sent again, it is.
		for _, r := range c.lost {
			if status, answer, err := p.post(context.Background(), "/api/v1/filter", c.body(r)); err != nil || status != http.StatusOK {
				t.Errorf("status %d, %v: %s", status, err, answer)
			}
		}
		if err := c.mustRemember(p, c.lost); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d kills, %d acknowledged items, all remembered", rounds+rounds/7, items)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log)
	}
}
