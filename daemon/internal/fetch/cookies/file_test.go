package cookies

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestFileKeepsWhatServersSet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cookies")
	now := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	f, err := open(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC) // the jar goes by the machine's clock, whatever it shows
	f.SetCookies(at(t, "https://www.example.com/in/login"), []*http.Cookie{
		{Name: "session", Value: `a "b", c`, HttpOnly: true}, {Name: "wide", Value: "1", Domain: ".example.com", Path: "/", Secure: true},
		{Name: "gone", Value: "1"}, {Name: "late", Value: "1", Expires: later, Path: "/"}, {Name: "foreign", Value: "1", Domain: "other.com"},
	})
	f.SetCookies(at(t, "https://www.example.com/in/login"), []*http.Cookie{{Name: "gone", MaxAge: -1}, {Name: "session", Value: "new"}})
	want := map[string]string{"https://www.example.com/in/x": "session=new; wide=1; late=1", "https://www.example.com/": "wide=1; late=1", "https://a.example.com/": "wide=1", "http://a.example.com/": ""}
	for range 2 {
		for to, want := range want {
			if got := sent(t, f, to); !sameCookies(got, want) {
				t.Errorf("%s: %q, want %q", to, got, want)
			}
		}
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
		if f, err = open(path, clock); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text, _ := os.ReadFile(path); strings.Contains(string(text), "gone") || strings.Contains(string(text), "foreign") {
		t.Errorf("the file has %s", text)
	}
	now = later.Add(time.Hour)
	if f, err = open(path, clock); err != nil || strings.Contains(sent(t, f, "https://www.example.com/"), "late") {
		t.Errorf("a cookie that is over is sent: %v", err)
	}
}

func sameCookies(a, b string) bool {
	count := func(s string) map[string]int {
		m := map[string]int{}
		for part := range strings.SplitSeq(s, "; ") {
			m[part]++
		}
		return m
	}
	one, two := count(a), count(b)
	for k, n := range one {
		if two[k] != n {
			return false
		}
	}
	return len(one) == len(two)
}

func TestFileFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{}\n":                   "cookies:1: no cookie: want origin",
		"\n{\"secret-value":      "cookies:2: no cookie: want a JSON object",
		`{"other":"secret-val"}`: "cookies:1: no cookie",
	} {
		path := filepath.Join(dir, "cookies")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(open, nil, 0o644), os.Chmod(open, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(open); runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), "hint: chmod 600 ")) {
		t.Errorf("a file that others can read: %v", err)
	}
	f, err := Open(filepath.Join(dir, "none", "cookies"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Save(); err == nil {
		t.Error("saved into a folder that does not exist")
	}
	if _, err := Open(os.DevNull); err == nil || strings.Contains(err.Error(), "chmod") {
		t.Errorf("a device: %v, want that it is no regular file", err)
	}
}

// A host cannot set a cookie for another one: the jar refuses it, and the file keeps what the other has set itself.
func TestFileKeepsWhatOthersCannotSet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cookies")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a", "b"} {
		f.SetCookies(at(t, "https://"+host+".example.com/"), []*http.Cookie{{Name: "login", Value: host, Domain: "a.example.com"}})
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if got := sent(t, f, "https://a.example.com/"); got != "login=a" {
		t.Errorf("sends %q", got)
	}
}

// A file of cookies can always be read again: if there are too many, the oldest are not in it.
func TestFileIsNotTooLong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cookies")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f.limit = 10_000
	for i := range 200 {
		f.SetCookies(at(t, fmt.Sprintf("https://h%d.example/", i)), []*http.Cookie{{Name: "name", Value: "value"}})
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 10_000 || info.Size() < 9000 {
		t.Errorf("%v, %v", info, err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"h0": 0, "h199": 1} {
		if got := len(f.Cookies(at(t, "https://"+host+".example/"))); got != want {
			t.Errorf("%s: %d cookies, want %d", host, got, want)
		}
	}
}
