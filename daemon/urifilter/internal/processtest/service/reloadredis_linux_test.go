package service_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A reload checks the certificates for calling Redis; if they are unusable, the old ones stay
// in use.
func TestReloadCertificateOfCalls(t *testing.T) {
	t.Parallel()
	m := processtest.NewManager(t)
	authority := certtest.New(t, "authority")
	server, own := authority.Issue(t, "server", time.Hour, "127.0.0.1"), authority.Issue(t, "daemon", time.Hour)
	redis := redistest.StartTLS(t, &redistest.TLS{CA: authority.File, Cert: server.Cert, Key: server.Key})
	p := processtest.Begin(t, t.TempDir(), append(append(m.Env(), processtest.OnRedis(redis.Addr)...), "URIFILTER_REDIS_TLS=true", "URIFILTER_REDIS_TLS_CA_FILE="+authority.File,
		"URIFILTER_REDIS_TLS_CERT_FILE="+own.Cert, "URIFILTER_REDIS_TLS_KEY_FILE="+own.Key))
	m.Await("READY=1", 1)
	works := func() {
		t.Helper()
		if status, answer, err := p.Post(context.Background(), "/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`); err != nil || status != 200 {
			t.Errorf("status %d, %v: %s", status, err, answer)
		}
	}
	works()
	p.Signal(syscall.SIGHUP)
	m.Await("READY=1", 2)
	p.AwaitLog("certificates for redis and mongodb are good; new connections use them")
	if err := os.WriteFile(own.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	m.Await("READY=1", 3)
	p.AwaitLog("certificates for redis or mongodb not reloaded; those read before stay in use", "redis.tls_cert_file")
	works()
}
