package redis

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

const (
	day  = 24 * time.Hour
	here = "127.0.0.1"
)

// withTLS returns the configuration for a server at these addresses.
func withTLS(t *testing.T, f tlsdial.Files, addrs ...string) Config {
	t.Helper()
	return withTLSIn(t, 30*time.Second, f, addrs...)
}

// withTLSIn is withTLS with a time limit for a handshake.
func withTLSIn(t *testing.T, handshake time.Duration, f tlsdial.Files, addrs ...string) Config {
	t.Helper()
	dialer, err := tlsdial.Open("redis", f, handshake, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	c := config(addrs[0])
	c.Addrs, c.TLS = addrs, dialer
	return c
}

func serverFiles(a *certtest.Authority, p certtest.Pair) *redistest.TLS {
	return &redistest.TLS{CA: a.File, Cert: p.Cert, Key: p.Key}
}

// One server, a cluster and sentinels that require client certificates.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t, "authority")
	server := serverFiles(authority, authority.Issue(t, "server", day, here))
	client := authority.Issue(t, "daemon", day)
	files := tlsdial.Files{CA: authority.File, Cert: client.Cert, Key: client.Key}
	try := func(t *testing.T, c Config) {
		t.Helper()
		_, s := opened(t, c)
		for _, want := range []int{5000, 0} {
			if n := add(t, s, 0, 5000); n != want {
				t.Errorf("%d of 5000 are new, want %d", n, want)
			}
		}
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		try(t, withTLS(t, files, redistest.StartTLS(t, server).Addr))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		var addrs []string
		for _, s := range redistest.Cluster(t, server) {
			addrs = append(addrs, s.Addr)
		}
		try(t, withTLS(t, files, addrs...))
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		sentinel, _, _ := redistest.Sentinels(t, server)
		c := withTLS(t, files, sentinel.Addr)
		c.MasterName = "mymaster"
		try(t, c)
	})
}

// The errors for operators, whatever is wrong on either side.
func TestTLSRefusals(t *testing.T) {
	t.Parallel()
	authority, other := certtest.New(t, "authority"), certtest.New(t, "other")
	client, strange := authority.Issue(t, "daemon", day), other.Issue(t, "strange", day)
	ended := authority.Issue(t, "ended", -time.Hour)
	good := redistest.StartTLS(t, serverFiles(authority, authority.Issue(t, "server", day, here)))
	named := redistest.StartTLS(t, serverFiles(authority, authority.Issue(t, "named", day, "redis.example")))
	old := redistest.StartTLS(t, serverFiles(authority, authority.Issue(t, "old", -time.Hour, here)))
	plain := redistest.Start(t)
	files := func(ca *certtest.Authority, p certtest.Pair) tlsdial.Files {
		return tlsdial.Files{CA: ca.File, Cert: p.Cert, Key: p.Key}
	}
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"authority of the system": {withTLS(t, tlsdial.Files{Cert: client.Cert, Key: client.Key}, good.Addr), []string{"unknown authority", "hint: redis.tls_ca_file must hold the authority"}},
		"another authority":       {withTLS(t, files(other, client), good.Addr), []string{"unknown authority", "hint: redis.tls_ca_file"}},
		"ended":                   {withTLS(t, files(authority, client), old.Addr), []string{"has expired", "hint: renew the certificate of the server"}},
		"another name":            {withTLS(t, files(authority, client), named.Addr), []string{"redis " + named.Addr, "hint: call the server by a name that its certificate has, or say that name in redis.tls_server_name"}},
		"no client certificate":   {withTLS(t, tlsdial.Files{CA: authority.File}, good.Addr), []string{"hint: the server ", "redis.tls_cert_file"}},
		"strange client":          {withTLS(t, files(authority, strange), good.Addr), []string{"hint: the server ", "redis.tls_cert_file"}},
		"client that has ended":   {withTLS(t, files(authority, ended), good.Addr), []string{"hint: the server ", "redis.tls_cert_file"}},
		// It waits for the end of a line, as long as it may.
		"plain server":            {withTLSIn(t, 2*time.Second, files(authority, client), plain.Addr), []string{"hint: the server does not ", "see its port, or set redis.tls: false"}},
		"TLS where it is not set": {config(good.Addr), []string{"redis " + good.Addr, "hint: ", "redis.tls"}},
	} {
		// A server that refuses a client ends the connection. Its reason, which tlsdial tries to
		// read, may come too late.
		s, err := Open(context.Background(), c.config)
		if err == nil {
			t.Errorf("%s: opened", name)
			_ = s.Close()
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
	f := files(authority, client)
	f.ServerName = "redis.example"
	if s, err := Open(context.Background(), withTLS(t, f, named.Addr)); err != nil {
		t.Errorf("by the name of the certificate: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Renewed certificates are used by the next connection. While a renewal is incomplete, or
// wrong, the previous ones stay in use.
func TestTLSRenewal(t *testing.T) {
	t.Parallel()
	first, second := certtest.New(t, "first"), certtest.New(t, "second")
	pair := first.Issue(t, "server", day, here)
	own := first.Issue(t, "daemon", day)
	files := tlsdial.Files{CA: first.File, Cert: own.Cert, Key: own.Key}
	server := redistest.StartTLS(t, serverFiles(first, pair), "--appendonly", "yes", "--appendfsync", "no")
	store, s := opened(t, withTLS(t, files, server.Addr))
	if n := add(t, s, 0, 1000); n != 1000 {
		t.Errorf("%d of 1000 are new", n)
	}
	// Server and daemon read the same file of the authority.
	renewed, client := second.Issue(t, "server", day, here), second.Issue(t, "daemon", day)
	certtest.Replace(t, client.Cert, own.Cert) // and not yet its key
	conn, err := store.opt.TLS.DialContext(context.Background(), "tcp", server.Addr)
	if err != nil {
		t.Errorf("in the middle of a renewal: %v", err)
	} else {
		_ = conn.Close()
	}
	certtest.Replace(t, client.Key, own.Key)
	certtest.Replace(t, second.File, first.File)
	certtest.Replace(t, renewed.Cert, pair.Cert)
	certtest.Replace(t, renewed.Key, pair.Key)
	server.Kill()
	server.Run()
	testserver.AwaitNil(t, "ready", func() error { return store.Ready(context.Background()) })
	if n := add(t, s, 0, 1500); n != 500 {
		t.Errorf("%d of 1500 are new, want 500", n)
	}
}
