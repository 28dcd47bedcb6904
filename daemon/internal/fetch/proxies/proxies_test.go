package proxies

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy.example:3128": "http://proxy.example:3128", "https://proxy.example/": "https://proxy.example:443", "http://10.0.0.1": "http://10.0.0.1:80",
		"socks5://me:secret@[::1]": "socks5://me:secret@[::1]:1080", "socks5h://proxy.example:9050": "socks5h://proxy.example:9050",
	} {
		if u, err := Parse(text); err != nil || u.String() != want {
			t.Errorf("%s: got %v and %v, want %s", text, u, err, want)
		}
	}
	for _, text := range []string{"", "proxy.example:3128", "ftp://me:secret@proxy.example", "socks4://me:secret@a", "http://", "http://me:secret@a/b", "http://me:secret@a?b", "http://me:secret@a\n"} {
		if u, err := Parse(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v and %v", text, u, err)
		}
	}
	if l, err := New(nil, nil); err == nil {
		t.Errorf("an empty list: %v", l)
	}
}

func TestRotation(t *testing.T) {
	now := time.Unix(1, 0)
	l, err := New([]string{"http://a", "http://b", "http://c"}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	next := func(n int) string {
		t.Helper()
		var got strings.Builder
		for range n {
			p, err := l.Next()
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(p.URL.Hostname())
		}
		return got.String()
	}
	a, b, c := l.all[0], l.all[1], l.all[2]
	if got := next(6); got != "abcabc" {
		t.Errorf("in turn: %s", got)
	}
	b.Failed(errors.New("gone"))
	b.Failed(errors.New("gone")) // it was under way
	if got := next(4); got != "acac" || l.Healthy() != 2 {
		t.Errorf("without b: %s, %d healthy", got, l.Healthy())
	}
	now = now.Add(First)
	if got := next(5); got != "abcac" { // b is tried once
		t.Errorf("b is tried: %s", got)
	}
	b.Failed(errors.New("gone")) // for twice as long now
	now = now.Add(2*First - 1)
	if got := next(2); got != "ac" {
		t.Errorf("without b: %s", got)
	}
	now = now.Add(1)
	if got := next(3); got != "abc" {
		t.Errorf("b is tried: %s", got)
	}
	b.Worked()
	if got := next(6); got != "abcabc" {
		t.Errorf("b works: %s", got)
	}

	for _, p := range []*Proxy{a, b, c} {
		p.Failed(errors.New(p.URL.Hostname() + " is gone"))
		now = now.Add(time.Second)
	}
	var none *NoneError
	if p, err := l.Next(); !errors.As(err, &none) || !none.Until.Equal(now.Add(First-3*time.Second)) || none.Last.Error() != "a is gone" {
		t.Errorf("all failed: %v and %v", p, err)
	}
	for range 100 {
		now = now.Add(2 * Longest)
		c.Failed(errors.New("gone"))
	}
	if got := c.until.Sub(now); got != Longest {
		t.Errorf("after 100 failures: left out for %s, want %s", got, Longest)
	}
}
