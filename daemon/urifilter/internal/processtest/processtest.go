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
	p.T.Helper()
	testserver.Await(p.T, "the daemon is ready", func() bool {
		select {
		case <-p.Done:
			p.T.Fatalf("the daemon ended at once: %v\n%s", p.Err, p.Log)
		default:
		}
		return p.says("/readyz")
	}, p.Log)
	return p
}

// says reports whether the daemon answers such a question with yes.
func (p *Process) says(path string) bool {
	status, _, err := p.Get(path)
	return err == nil && status == http.StatusOK
}

// AwaitLive waits until the daemon answers, which it does before it is ready.
func AwaitLive(t testing.TB, p *Process) {
	t.Helper()
	testserver.Await(t, "the daemon is live", func() bool { return p.says("/livez") }, p.Log)
}

// AwaitLog waits until the daemon has logged texts: what it logged comes later than what it did thereafter.
func (p *Process) AwaitLog(texts ...string) {
	p.T.Helper()
	testserver.Await(p.T, fmt.Sprintf("it has logged %q", texts), func() bool {
		for len(texts) > 0 && strings.Contains(p.Log.String(), texts[0]) {
			texts = texts[1:]
		}
		return len(texts) == 0
	}, p.Log)
}
