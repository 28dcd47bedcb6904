//go:build linux

package kills_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// TestClientOverKills kills the daemon repeatedly under clients that ask for the same items,
// and checks each choice of what a lost answer means against the results.
func TestClientOverKills(t *testing.T) {
	const batches, size, kills = 400, 20, 4
	for name, doubt := range map[string]client.Doubt{"error": client.DoubtError, "seen": client.DoubtSeen, "new": client.DoubtNew} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, dir := testserver.Free(t), t.TempDir()
			p := processtest.BeginAt(t, addr, dir, nil).AwaitReady()
			c, err := client.New(addr, client.WithInDoubt(doubt), client.WithPatience(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var mu sync.Mutex
			fresh, doubted := map[string]int{}, map[string]bool{}
			done := make(chan int, 2*batches)
			var callers sync.WaitGroup
			for range 2 {
				callers.Go(func() {
					for b := range batches {
						var items []string
						for i := range size {
							items = append(items, fmt.Sprintf("https://example.com/%d/%d", b, i))
						}
						got, err := c.Filter(t.Context(), "uri", items)
						mu.Lock()
						for _, item := range got {
							fresh[item]++
						}
						if err != nil {
							for _, item := range items {
								doubted[item] = true
							}
						}
						mu.Unlock()
						if err != nil && (doubt != client.DoubtError || !client.InDoubt(err)) {
							t.Errorf("batch %d: %v", b, err)
						}
						done <- b
					}
				})
			}
			for n := range 2 * batches {
				<-done
				if n%(2*batches/(kills+1)) == 2*batches/(kills+1)-1 {
					_ = p.End(syscall.SIGKILL)
					p = processtest.BeginAt(t, addr, dir, nil)
				}
			}
			callers.Wait()
			for b := range batches {
				for i := range size {
					item := fmt.Sprintf("https://example.com/%d/%d", b, i)
					n := fresh[item]
					if doubt == client.DoubtSeen && n > 1 || doubt == client.DoubtNew && n < 1 || doubt == client.DoubtError && !doubted[item] && n != 1 || n > 2 {
						t.Errorf("%s: new %d times, doubted %t", item, n, doubted[item])
					}
				}
			}
			t.Logf("%d items, %d in doubt", len(fresh), len(doubted))
		})
	}
}

// TestClientErrors shows what a program sees of a daemon that is slow, requires a token, or
// does not know the filter.
func TestClientErrors(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	c, err := client.New(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var e *client.Error
	if _, err := c.Filter(t.Context(), "nope", []string{"a"}); !errors.As(err, &e) || e.ErrorCode != "unknown_filter" || e.Status != http.StatusNotFound {
		t.Errorf("unknown filter: got %v", err)
	}
	if _, err := c.Filter(t.Context(), "uri", []string{"a"}, client.Expire(time.Minute)); !errors.As(err, &e) || e.ErrorCode != "expire_not_supported" {
		t.Errorf("expire for a Bloom filter: got %v", err)
	}

	p.Signal(syscall.SIGSTOP)
	// The signal reaches each thread by itself: wait until all have stopped.
	if err := unix.Waitid(unix.P_PID, p.Cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	// The request must be sent within this time, so that it is in doubt.
	slow, err := client.New(p.Addr, client.WithTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_, err = slow.Filter(t.Context(), "uri", []string{"slow"})
	var broken *client.ConnectionError
	var timeout net.Error
	if !client.InDoubt(err) || !errors.As(err, &broken) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a daemon that hangs: got %v", err)
	}
	p.Signal(syscall.SIGCONT)
	if _, err := c.Filter(t.Context(), "uri", []string{"after"}); err != nil {
		t.Errorf("a daemon that goes on: %v", err)
	}

	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("- {name: crawler, token: a-secret-of-the-crawlers, scopes: [filter]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := processtest.Start(t, t.TempDir(), nil, "--tokens-file", tokens)
	bad, err := client.New(locked.Addr, client.WithToken("of-somebody-else-and-long-enough"))
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	if _, err := bad.Filter(t.Context(), "uri", []string{"a"}); !errors.As(err, &e) || e.ErrorCode != "unauthorized" || e.Status != http.StatusUnauthorized {
		t.Errorf("wrong token: got %v", err)
	}
}
