package crawl

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form/board"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
)

// loginFile writes a file that logs in to a board with a password, and that saves cookies beside it.
func loginFile(t *testing.T, b *board.Board, password string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "login.yaml")
	text := "cookies: kept\npage: " + b.URL + "/login.php\nfields: {username: " + board.User + ", password: {file: password}}\ncheck: {text: 退出}\n"
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLogin: pages that only users see are stored, no link that ends the session is followed, and
// the crawl can continue with its saved cookies.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := board.New(t)
	s := setting(b.URL+"/index.php", 1, 2)
	s.Login = loginFile(t, b, board.Password)
	dir := t.TempDir()
	if p := run(t, dir, s); p.Stored != 1 {
		t.Errorf("%+v", p)
	}
	c, err := Resume(t.Context(), dir, func(s *Setting) error { s.MaxPages = 10; return nil }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Run(t.Context()), c.Close()); err != nil {
		t.Fatal(err)
	}
	if got, want := order(t, dir, b.URL), []string{"/index.php", "/post.php"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	if len(b.Bodies) != 1 {
		t.Errorf("%d logins, want 1", len(b.Bodies))
	}
	all, err := crawltest.Records(dir)
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pages", all[0].File))
	if err != nil || !strings.Contains(string(text), "欢迎，"+board.User) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestLoginAndRedirect: a link that leads to the end of the session by a redirect does not end it either.
func TestLoginAndRedirect(t *testing.T) {
	t.Parallel()
	var ended atomic.Bool
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = w.Write([]byte("<!doctype html>welcome <a href=/leave>x</a>"))
		case "/leave":
			http.Redirect(w, r, "/logout", http.StatusFound)
		case "/logout":
			ended.Store(true)
		default:
			http.NotFound(w, r)
		}
	})
	s := setting("http://127.0.0.1:"+port+"/", 10, 1)
	s.Login = filepath.Join(t.TempDir(), "login.yaml")
	if err := os.WriteFile(s.Login, []byte("page: "+s.Seeds[0]+"\ncheck: {text: welcome}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := run(t, t.TempDir(), s); p.Stored != 1 || p.Skipped["session"] != 1 || ended.Load() {
		t.Errorf("the session was ended: %t, %+v", ended.Load(), p)
	}
}

// TestLoginThatFails stores nothing, and the crawl can be resumed once the file is right.
func TestLoginThatFails(t *testing.T) {
	t.Parallel()
	b := board.New(t)
	s := setting(b.URL+"/index.php", 10, 1)
	s.Login = loginFile(t, b, "wrong-secret")
	dir := t.TempDir()
	c, err := Begin(t.Context(), dir, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `check: the page has no "退出"`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.Login), "password"), []byte(board.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = Resume(t.Context(), dir, func(*Setting) error { return nil }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Run(t.Context()), c.Close()); err != nil {
		t.Fatal(err)
	}
	if got := order(t, dir, b.URL); len(got) != 2 {
		t.Errorf("stored %q", got)
	}
}
