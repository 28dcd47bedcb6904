// Package processtest lets tests run the program urifilter as a process: it builds the
// daemon, starts it, calls it, runs commands beside it, and stands in for its service
// manager. The tests that need this are in its subfolders, one for each topic, and beside the
// commands in daemon/urifilter.
package processtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// built is the daemon, built once for all tests of a package.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "urifilter-test-")
	if err != nil {
		return "", err
	}
	folder = dir
	path := filepath.Join(dir, "urifilter")
	return path, testserver.Program(path, "github.com/cr-clawer/urifilter/daemon/urifilter")
})

// folder of the binary; "": not yet built.
var folder string

// Binary returns the path of the daemon, which the first call builds.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main is the TestMain of a package that uses this one: it removes the binary at the end.
func Main(m *testing.M) {
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// WithArchive returns the environment of a daemon, or a command, with an archive. The bit-map
// of uri has two stripes.
func WithArchive(uri string) []string {
	return []string{"URIFILTER_MONGODB_URI=" + uri, fmt.Sprintf("URIFILTER_FILTERS=[{id: 1, name: uri, capacity: %d}, {id: 2, name: ip, capacity: 1000}]", URICapacity)}
}

// OnRedis returns the environment of a daemon whose store is Redis, at the given addresses.
func OnRedis(addrs ...string) []string {
	return []string{"URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS=" + strings.Join(addrs, ","),
		fmt.Sprintf(`URIFILTER_FILTERS=[{id: 1, name: uri, capacity: %d}]`, URICapacity)}
}

// OnMySQL returns the environment of a daemon with the filter pages in a database of the server,
// made by `urifilter mysql init`.
func OnMySQL(t *testing.T, server *mysqltest.Server) []string {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(mysqltest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"URIFILTER_MYSQL_ADDR=" + server.Addr, "URIFILTER_MYSQL_PASSWORD_FILE=" + password,
		`URIFILTER_FILTERS=[{id: 1, name: uri}, {id: 7, name: pages, kind: exact, store: mysql}]`}
	admin := []string{"--admin", "admin", "--admin-password-file", password}
	out, _ := MustCommand(t, t.TempDir(), env, append([]string{"mysql", "init"}, admin...)...)
	MustContain(t, out, "MariaDB", "database urifilter: tables made, 0 filters")
	out, _ = MustCommand(t, t.TempDir(), env, "mysql", "init")
	MustContain(t, out, "tables unchanged, 0 filters")
	return env
}

// AwaitReady waits until the daemon may be sent requests.
func (p *Process) AwaitReady() *Process {
	t := p.T
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.Done:
			t.Fatalf("the daemon ended at once: %v\n%s", p.Err, p.Log)
		default:
		}
		if status, _, err := p.Get("/readyz"); err == nil && status == http.StatusOK {
			return p
		}
	}
	t.Fatalf("not ready after 2 min\n%s", p.Log)
	return nil
}

// AwaitLive waits until the daemon answers, which it does before it is ready.
func AwaitLive(t testing.TB, p *Process) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if status, _, err := p.Get("/livez"); err == nil && status == http.StatusOK {
			return
		}
	}
	t.Fatalf("not live after 2 min\n%s", p.Log)
}

// AwaitLog waits until the daemon has logged texts: what it logged comes later than what it did thereafter.
func (p *Process) AwaitLog(texts ...string) {
	p.T.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for len(texts) > 0 && strings.Contains(p.Log.String(), texts[0]) {
			texts = texts[1:]
		}
		if len(texts) == 0 {
			return
		}
	}
	p.T.Fatalf("never logged %q\n%s", texts, p.Log)
}

// Eventually waits for a condition that others bring about.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
