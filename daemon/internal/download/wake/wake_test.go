package wake

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
)

// process is one that notifies and is notified.
type process struct {
	*Notifier
	heard map[Whom]chan struct{}
}

func start(t *testing.T, o Options) *process {
	t.Helper()
	p := &process{heard: map[Whom]chan struct{}{Dispatchers: make(chan struct{}, 1), Workers: make(chan struct{}, 1)}}
	o.Wake, o.Log, o.Registry = map[Whom]func(){}, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry()
	for whom, heard := range p.heard {
		o.Wake[whom] = func() {
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	}
	notifier, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	p.Notifier = notifier
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); notifier.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

// wakes notifies until the other one is woken, which may not listen yet.
func (p *process) wakes(t *testing.T, other *process, whom Whom) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.After(3 * time.Minute)
	for {
		p.Notify(whom)
		select {
		case <-other.heard[whom]:
			return
		case <-again.C:
		case <-late:
			t.Fatalf("%s are not woken after 3 min", whom)
		}
	}
}

// What one process notifies of, the other is woken by, also after Redis has lost everything, and was away.
func TestRing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret")
	o := Options{URL: "redis://" + server.Addr, Password: "secret"}
	one, two := start(t, o), start(t, o)
	both := func() {
		t.Helper()
		one.wakes(t, two, Workers)
		two.wakes(t, one, Dispatchers)
	}
	both()
	server.CLI("-a", "secret", "--no-auth-warning", "FLUSHALL")
	both()
	// A stream whose entries have ids of the future, as after a clock was set back, is followed, too.
	server.CLI("-a", "secret", "--no-auth-warning", "XADD", stream, "99999999999999-0", field, string(Workers))
	server.CLI("-a", "secret", "--no-auth-warning", "DEL", stream)
	both()
	server.Kill()
	for heard := 0; heard < 2; heard++ { // who is cut off looks for itself
		select {
		case <-one.heard[Workers]:
		case <-time.After(3 * time.Minute):
			t.Fatal("not woken when Redis went away")
		}
	}
	server.Run()
	both()
}

func TestCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	o := Options{URL: "redis://" + servers[0].Addr + "?addr=" + servers[1].Addr + "&addr=" + servers[2].Addr}
	one, two := start(t, o), start(t, o)
	one.wakes(t, two, Workers)
	two.wakes(t, one, Dispatchers)
}

// However often it was notified, few entries are sent, and the stream stays short.
func TestManyRings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := start(t, Options{URL: "redis://" + server.Addr}), start(t, Options{URL: "redis://" + server.Addr})
	one.wakes(t, two, Workers)
	began := time.Now()
	for time.Since(began) < time.Second {
		one.Notify(Workers)
	}
	most := int(time.Since(began)/notifyEvery) + 10
	if got := strings.Count(server.CLI("XRANGE", stream, "-", "+"), field); got < 2 || got > most {
		t.Errorf("%d entries in a second, want 2 to %d", got, most)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"http://127.0.0.1:6379", "redis://127.0.0.1:6379/x", "redis://u:secret@127.0.0.1:port", "://"} {
		_, err := Open(Options{URL: text, Registry: prometheus.NewRegistry()})
		if err == nil || !strings.HasPrefix(err.Error(), "redis.url: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
