package e2e_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
)

// roundTrip is that of a line round half the world.
const roundTrip = 200 * time.Millisecond

// tryDistantHosts: over a long line the targets wait for few round trips, because they ask for many things at
// once. The bounds are a third above what is usual; one question after the other takes three times as many.
func tryDistantHosts(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts: []e2e.Host{
			{Name: "one", Sudo: true, Roles: "filter, redis"},
			{Name: "two", Sudo: true, Roles: "downloader, mongodb"},
		},
		Settings: "listen: '127.0.0.1:8000', uri_num_scale: 100000", Repository: true,
	})
	inventory := l.Inventory(t) + fmt.Sprintf("downloader: {binary: %q, settings: {listen: '127.0.0.1:8001', filter: {url: 'http://127.0.0.1:8000'}}}\n", l.Downloader(t, "first"))
	l.WriteInventory(t, inventory)
	l.Must(t, "deploy")

	known, err := os.ReadFile(l.Sandbox.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]*line{}
	for name, h := range l.Hosts {
		lines[name] = newLine(t, h.Address+":22")
		for _, entry := range strings.Split(string(known), "\n") {
			if key, found := strings.CutPrefix(entry, h.Address+" "); found {
				known = fmt.Appendf(known, "[127.0.0.1]:%d %s\n", lines[name].port, key)
			}
		}
		at := "name: " + name + ", address: "
		inventory = strings.Replace(inventory, at+h.Address, fmt.Sprintf("%s127.0.0.1, port: %d, private_address: %s", at, lines[name].port, h.Address), 1)
	}
	trusted := filepath.Join(l.Home, "known_hosts")
	if err := os.WriteFile(trusted, known, 0o600); err != nil {
		t.Fatal(err)
	}
	l.WriteInventory(t, strings.ReplaceAll(inventory, l.Sandbox.KnownHosts, trusted))
	for _, c := range []struct {
		target string
		most   map[string]int64
	}{
		{"plan", map[string]int64{"one": 70, "two": 70}},
		{"deploy", map[string]int64{"one": 100, "two": 100}},
	} {
		for _, line := range lines {
			line.turns.Store(0)
		}
		r := l.Must(t, c.target)
		told(t, r, 0, "nothing to change on 2 hosts")
		for name, line := range lines {
			t.Logf("%s: %s: %d round trips, %s", c.target, name, line.turns.Load(), r.Took.Round(100*time.Millisecond))
			if n := line.turns.Load(); n > c.most[name] {
				t.Errorf("%s: %d round trips to %s, want %d at most", c.target, n, name, c.most[name])
			}
		}
	}
}

// line is a TCP proxy that holds back what goes through it, as distance does, and counts how often the one who calls
// says something after an answer.
type line struct {
	port  int
	turns atomic.Int64
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	l := &line{port: listener.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(caller, to)
		}
	}()
	return l
}

func (l *line) carry(caller net.Conn, to string) {
	defer caller.Close()
	host, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer host.Close()
	var answered atomic.Bool
	answered.Store(true)
	go func() {
		distance(caller, host, nil, func() { answered.Store(true) })
		caller.Close()
	}()
	distance(host, caller, func() {
		if answered.Swap(false) {
			l.turns.Add(1)
		}
	}, nil)
}

// distance copies what it reads half a round trip later. It calls two functions for each piece, when it sets off and
// when it arrives.
func distance(to io.Writer, from io.Reader, leaves, arrives func()) {
	type piece struct {
		due  time.Time
		text []byte
	}
	way := make(chan piece, 1<<14)
	go func() {
		defer close(way)
		for {
			text := make([]byte, 32<<10)
			n, err := from.Read(text)
			if n > 0 {
				if leaves != nil {
					leaves()
				}
				way <- piece{time.Now().Add(roundTrip / 2), text[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range way {
		time.Sleep(time.Until(p.due))
		if arrives != nil {
			arrives()
		}
		if _, err := to.Write(p.text); err != nil {
			break
		}
	}
	for range way { // so that the reader ends
	}
}
