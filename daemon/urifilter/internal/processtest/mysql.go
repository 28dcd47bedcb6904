package processtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
)

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
