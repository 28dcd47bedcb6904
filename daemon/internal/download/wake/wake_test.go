package wake

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// process is a process that notifies and is notified.
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

// wakes notifies until the other process is woken, which may not be listening yet.
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

// A notification of one process wakes the other, also after Redis has lost everything, and was away.
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
	// A stream whose entries have future ids, as after a clock was set back, is followed, too.
	server.CLI("-a", "secret", "--no-auth-warning", "XADD", stream, "99999999999999-0", field, string(Workers))
	server.CLI("-a", "secret", "--no-auth-warning", "DEL", stream)
	both()
	server.Kill()
	for heard := 0; heard < 2; heard++ { // a process that is cut off wakes itself
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
	servers := redistest.Cluster(t, nil)
	o := Options{URL: "redis://" + servers[0].Addr + "?addr=" + servers[1].Addr + "&addr=" + servers[2].Addr}
	one, two := start(t, o), start(t, o)
	one.wakes(t, two, Workers)
	two.wakes(t, one, Dispatchers)
}

// A server, sentinels and a cluster that require TLS, with a client certificate, and a user.
func TestServers(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t, "authority")
	cert := authority.Issue(t, "server", time.Hour, "127.0.0.1")
	server := &redistest.TLS{CA: authority.File, Cert: cert.Cert, Key: cert.Key}
	client := authority.Issue(t, "downloader", time.Hour)
	dialer, err := tlsdial.Open("redis", tlsdial.Files{CA: authority.File, Cert: client.Cert, Key: client.Key}, time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, o Options) {
		t.Helper()
		o.TLS = dialer
		one, two := start(t, o), start(t, o)
		one.wakes(t, two, Workers)
		two.wakes(t, one, Dispatchers)
	}
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		one := redistest.StartTLS(t, server)
		one.CLI("ACL", "SETUSER", "crawl", "on", ">secret", "~uridownloader:*", "+xadd", "+xread", "+select")
		try(t, Options{Addrs: []string{one.Addr}, Username: "crawl", Password: "secret", DB: 2})
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		sentinel, _, _ := redistest.Sentinels(t, server)
		try(t, Options{Addrs: []string{sentinel.Addr}, MasterName: "mymaster"})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		var addrs []string
		for _, s := range redistest.Cluster(t, server) {
			addrs = append(addrs, s.Addr)
		}
		try(t, Options{Addrs: addrs})
	})
}

// However many notifications there are, few entries are sent, and the stream stays short.
func TestManyRings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := start(t, Options{URL: "redis://" + server.Addr}), start(t, Options{URL: "redis://" + server.Addr})
	began := time.Now() // wakes makes entries, too, and many where the machine is so busy that it takes long
	one.wakes(t, two, Workers)
	rung := time.Now()
	entries := func() int { return strings.Count(server.CLI("XRANGE", stream, "-", "+"), field) }
	// At least a second, and until there are two: on a busy machine Redis may take its time.
	for time.Since(rung) < time.Second || entries() < 2 && time.Since(rung) < 3*time.Minute {
		one.Notify(Workers)
	}
	got := entries()
	if most := int(time.Since(began)/notifyEvery) + 10; got < 2 || got > most {
		t.Errorf("%d entries in %v, want 2 to %d", got, time.Since(began), most)
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
