// Package wake tells roles in other processes, through a Redis stream, that there is work for them,
// so that they need not wait for their next poll. Nothing depends on it: a process that hears
// nothing polls the store a second later, and only the store says what there is to do.
package wake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// Whom names the roles that should look for work.
type Whom string

const (
	Dispatchers Whom = "dispatchers" // URIs came in, or a worker has room
	Workers     Whom = "workers"     // tasks were handed out
)

const (
	stream = "uridownloader:wake"
	field  = "whom"
	// length is roughly how many entries the stream keeps: nobody needs old ones.
	length = 100
	// notifyEvery is the least time between two entries of one process for the same roles, and listenEvery that
	// between two wake-ups of its own roles. The first of many takes effect at once, however many follow.
	notifyEvery = 100 * time.Millisecond
	listenEvery = 50 * time.Millisecond
	// block is how long a read waits for entries.
	block   = time.Second
	timeout = 5 * time.Second
	again   = time.Second // after an error
)

// Options say which Redis, and who is to be woken.
type Options struct {
	// Addrs are host:port of a server, of members of a cluster, or of the sentinels of a MasterName.
	Addrs      []string
	Username   string
	Password   string // with a URL "": that of the URL
	DB         int
	TLS        *tlsdial.Dialer // nil: connections are plain
	MasterName string
	// URL is used without Addrs: redis://HOST:PORT/DB, or rediss:// for TLS. For a cluster, its
	// query has addr=HOST:PORT for each further server.
	URL string
	// Wake has the functions to call in this process. They must return quickly.
	Wake     map[Whom]func()
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Notifier is a connection to Redis. It is safe for concurrent use.
type Notifier struct {
	opt     Options
	client  redis.UniversalClient
	pending map[Whom]chan struct{}
	name    string // of the Redis, without the password

	mu     sync.Mutex
	failed bool

	connected prometheus.Gauge
	sent      *prometheus.CounterVec
}

// Open reads the options, but does not connect: a Redis that is down is no error.
func Open(o Options) (*Notifier, error) {
	name := strings.Join(o.Addrs, ",")
	client := dialAddrs(o)
	if o.URL != "" {
		var err error
		if client, err = dial(o.URL, o.Password); err != nil {
			return nil, err
		}
		u, err := url.Parse(o.URL)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		name = u.Redacted()
	}
	b := &Notifier{
		opt: o, client: client, name: name,
		pending:   map[Whom]chan struct{}{Dispatchers: make(chan struct{}, 1), Workers: make(chan struct{}, 1)},
		connected: prometheus.NewGauge(prometheus.GaugeOpts{Name: "wake_connected", Help: "1 while Redis notifies this process of work, 0 while it has to poll the store."}),
		sent:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wake_sent_total", Help: "Notifications that were sent to other roles, by receiver."}, []string{"whom"}),
	}
	o.Registry.MustRegister(b.connected, b.sent)
	return b, nil
}

// dialAddrs makes the client of Addrs, nil if there are none.
func dialAddrs(o Options) redis.UniversalClient {
	if len(o.Addrs) == 0 {
		return nil
	}
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, Username: o.Username, Password: o.Password, DB: o.DB, MasterName: o.MasterName,
		SentinelUsername: o.Username, SentinelPassword: o.Password,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, MaxRetries: -1, DisableIdentity: true,
	}
	if o.TLS != nil {
		u.Dialer = o.TLS.DialContext
	}
	return redis.NewUniversalClient(u)
}

func dial(text, password string) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("redis.url: want a URL such as redis://127.0.0.1:6379") // the error would reveal a password
	}
	if u.Query().Has("addr") {
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, fmt.Errorf("redis.url: %w", err)
		}
		if password != "" {
			o.Password = password
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MaxRetries, o.DisableIdentity = timeout, timeout, timeout, -1, true
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	if password != "" {
		o.Password = password
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MaxRetries, o.DisableIdentity = timeout, timeout, timeout, -1, true
	return redis.NewClient(o), nil
}

// Notify makes the roles of all processes look for work. It never blocks; several calls may become one entry.
func (b *Notifier) Notify(whom Whom) {
	select {
	case b.pending[whom] <- struct{}{}:
	default:
	}
}

// Run sends notifications, and wakes this process when one arrives, until ctx ends. It can be called once.
func (b *Notifier) Run(ctx context.Context) {
	var work sync.WaitGroup
	for whom, pending := range b.pending {
		work.Go(func() { b.send(ctx, whom, pending) })
	}
	work.Go(func() { b.listen(ctx) })
	<-ctx.Done()
	_ = b.client.Close() // ends the pending read
	work.Wait()
	b.connected.Set(0)
}

func (b *Notifier) send(ctx context.Context, whom Whom, pending <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-pending:
		}
		err := b.client.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: length, Approx: true, Values: []any{field, string(whom)}}).Err()
		if err == nil {
			b.sent.WithLabelValues(string(whom)).Inc()
		} else {
			b.logState(ctx, err)
		}
		if !pause(ctx, notifyEvery) {
			return
		}
	}
}

// listen reads entries as they come. After a time without any, and after an error, it continues
// with new entries only, because the stream may have been replaced by one with smaller ids. Nothing
// is missed in between: after an error all roles are woken.
func (b *Notifier) listen(ctx context.Context) {
	last := "$"
	for ctx.Err() == nil {
		answer, err := b.client.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, last}, Count: length, Block: block}).Result()
		if errors.Is(err, redis.Nil) {
			err, last = nil, "$"
		}
		if b.logState(ctx, err) || err != nil {
			last = "$"
			for _, wake := range b.opt.Wake {
				wake()
			}
		}
		if err != nil {
			pause(ctx, again)
			continue
		}
		called := map[Whom]bool{}
		for _, s := range answer {
			for _, m := range s.Messages {
				last = m.ID
				whom, _ := m.Values[field].(string)
				called[Whom(whom)] = true
			}
		}
		for whom := range called {
			if wake := b.opt.Wake[whom]; wake != nil {
				wake()
			}
		}
		if len(called) > 0 {
			pause(ctx, listenEvery)
		}
	}
}

// logState logs when Redis goes away, and when it comes back; back reports the latter.
func (b *Notifier) logState(ctx context.Context, err error) (back bool) {
	if ctx.Err() != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.connected.Set(1)
		if back = b.failed; back {
			b.opt.Log.Info("redis can be used again", "redis", b.name)
		}
	case !b.failed:
		b.connected.Set(0)
		b.opt.Log.Warn("redis cannot be used: the store is polled every second"+hint(err), "redis", b.name, "err", err)
	}
	b.failed = err != nil
	return back
}

func hint(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"):
		return "; check redis.username and redis.password_file"
	case strings.Contains(text, "NOPERM"):
		return "; the user needs XADD and XREAD on the key " + stream
	}
	if hint := tlsdial.Hint("redis", err); hint != "" {
		return "; " + hint
	}
	return ""
}

// ClientLog logs what the Redis client says about its connections, at level debug: anything
// important is also an error of a command.
type ClientLog struct{ Log *slog.Logger }

// Printf is what redis.SetLogger asks for.
func (l ClientLog) Printf(ctx context.Context, format string, args ...any) {
	l.Log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
