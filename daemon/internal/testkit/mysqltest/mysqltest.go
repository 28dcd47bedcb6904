// Package mysqltest starts real MariaDB servers for tests, on free ports of loopback, and
// kills them when the test ends.
package mysqltest

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/go-sql-driver/mysql"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Password is that of every user that a Server makes.
const Password = "p@ss:/'word"

// Admin may do everything, by Password.
const Admin = "admin"

// scripts is where Debian's package mariadb-server-core has what a data folder is made with.
const scripts = "/usr/share/mysql"

// Server is one mariadbd.
type Server struct {
	Addr string // stays over Kill and Run
	t    testing.TB
	dir  string
	args []string
	testserver.Process
	names atomic.Int64
}

// Start starts a server; args are further flags of mariadbd.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("mariadbd"); err != nil {
		t.Skip("mariadbd is not installed (Debian: mariadb-server-core)")
	}
	s := &Server{t: t, Addr: testserver.Free(t), args: args}
	var err error
	// Of a short name: the path of a socket may have about a hundred bytes.
	if s.dir, err = os.MkdirTemp("", "mariadb"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(s.dir); err != nil {
			t.Error(err)
		}
	})
	s.bootstrap()
	testserver.OnFreePort(t, &s.Addr, s.run)
	return s
}

// bootstrap makes the data folder.
func (s *Server) bootstrap() {
	s.t.Helper()
	if err := s.fill(filepath.Join(s.dir, "data")); err != nil {
		s.t.Fatal(err)
	}
	users := fmt.Sprintf("create user if not exists %s@'127.0.0.1' identified by %s;\ngrant all on *.* to %[1]s@'127.0.0.1' with grant option;\n", Admin, Quote(Password))
	if err := os.WriteFile(filepath.Join(s.dir, "init.sql"), []byte(users), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// made is a data folder as mariadbd makes it without further flags; nil: none was made in this process.
var made struct {
	sync.Mutex
	files fstest.MapFS
}

// fill makes the data folder: a copy of the one that was made first, which takes a tenth of the time.
func (s *Server) fill(data string) error {
	made.Lock()
	defer made.Unlock()
	if made.files != nil && len(s.args) == 0 {
		return os.CopyFS(data, made.files)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := bootstrap(s.command()); err != nil || len(s.args) > 0 {
		return err
	}
	files := fstest.MapFS{}
	err := filepath.WalkDir(data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == data {
			return err
		}
		file := &fstest.MapFile{Mode: 0o700 | os.ModeDir}
		if !entry.IsDir() {
			file.Mode = 0o600
			if file.Data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		name, err := filepath.Rel(data, path)
		files[filepath.ToSlash(name)] = file
		return err
	})
	if err == nil {
		made.files = files
	}
	return err
}

// bootstrap makes the system tables in the data folder of a server that mariadbd would start.
func bootstrap(mariadbd *exec.Cmd) error {
	readers := []io.Reader{strings.NewReader("create database mysql;\nuse mysql;\n" +
		"set @auth_root_socket=null, @skip_auth_anonymous=1, @current_hostname='localhost';\n")}
	for _, name := range []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
		f, err := os.Open(filepath.Join(scripts, name))
		if err != nil {
			return err
		}
		defer f.Close()
		readers = append(readers, f)
	}
	mariadbd.Args = append(mariadbd.Args, "--bootstrap", "--skip-networking")
	mariadbd.Stdin = io.MultiReader(readers...)
	if out, err := mariadbd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadbd --bootstrap: %w\n%s", err, out)
	}
	return nil
}

// Quote writes a text as SQL has it.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// command is mariadbd on the data folder, small, and with the durability that it has by default.
func (s *Server) command(more ...string) *exec.Cmd {
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--tmpdir=" + s.dir,
		"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M", "--skip-name-resolve"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return exec.Command("mariadbd", append(append(args, s.args...), more...)...)
}

// Run starts the server again, after Kill, with what is in its folder.
func (s *Server) Run() {
	s.t.Helper()
	if !s.run() {
		s.t.Fatalf("mariadbd: %s is taken", s.Addr)
	}
}

// run starts the server, and tells whether it, and not another, answers at its address.
func (s *Server) run() bool {
	s.t.Helper()
	host, port, _ := strings.Cut(s.Addr, ":")
	cmd := s.command("--bind-address="+host, "--port="+port, "--socket="+s.Socket(),
		"--pid-file="+filepath.Join(s.dir, "pid"), "--init-file="+filepath.Join(s.dir, "init.sql"))
	return s.Start(s.t, cmd, filepath.Join(s.dir, "log"), []string{"ready for connections"}, []string{"already in use"})
}

// Socket is the path of its socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "socket") }

// Exec runs statements as a user who may do everything.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	db := s.Open("")
	defer db.Close()
	for _, text := range statements {
		if _, err := db.ExecContext(context.Background(), text); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
	}
}

// Open is a database, "" for none, as a user with all privileges sees it. The caller closes it.
func (s *Server) Open(database string) *sql.DB {
	s.t.Helper()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = Admin, Password, "tcp", s.Addr, database
	connector, err := mysql.NewConnector(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return sql.OpenDB(connector)
}

// Database makes an empty database of its own, and a user of the same name with Password who
// has the given privileges on it, such as "select, insert".
func (s *Server) Database(privileges string) (name string) {
	s.t.Helper()
	name = fmt.Sprintf("urifilter%d", s.names.Add(1))
	s.Exec("create database "+name,
		fmt.Sprintf("create user %s@'127.0.0.1' identified by %s", name, Quote(Password)),
		fmt.Sprintf("grant %s on %s.* to %[2]s@'127.0.0.1'", privileges, name))
	return name
}
