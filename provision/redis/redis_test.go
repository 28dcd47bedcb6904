package redis

import (
	"slices"
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{Package: "redis-stack"}); err == nil || err.Error() != `redis.package "redis-stack": want redis-server or valkey-server` {
		t.Errorf("got %v", err)
	}
	s, err := New(Options{Bind: []string{"127.0.0.1", "10.0.0.5", "10.0.0.5"}, MaxMemory: "4GB"})
	if err != nil {
		t.Fatal(err)
	}
	text := s.text(state{own: true})
	for _, want := range []string{"\nbind 127.0.0.1 10.0.0.5\n", "\nport 6379\n", "\nmaxmemory 4GB\n", "\nmaxmemory-policy noeviction\n", "\nappendonly yes\n", "\nappendfsync everysec\n", "\ninclude /etc/redis/urifilter.secret.conf\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if lines, err := parseConf("x", text); err != nil || len(lines) != 8 {
		t.Errorf("our own file: %v, %v", lines, err)
	}
}

// A server that daemons use without TLS keeps its plain port until that port is closed; a new
// server never has one; and a server that goes back to plain has no port for TLS.
func TestPortsOfTLS(t *testing.T) {
	t.Parallel()
	with, err := New(Options{TLSPort: 6380})
	if err != nil {
		t.Fatal(err)
	}
	without, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	closing := *with
	closing.closing = true
	used := []line{{1, "port", []string{"6379"}}}
	changed := append([]line{{2, "tls-port", []string{"6380"}}}, used...)
	const tls = "port %s\ntls-port 6380\ntls-auth-clients yes\ntls-ca-cert-file /etc/redis/urifilter.ca.pem\ntls-cert-file /etc/redis/urifilter.pem\ntls-key-file /etc/redis/urifilter.pem\n"
	for name, c := range map[string]struct {
		server *Server
		ours   []line
		want   string
	}{
		"new":         {with, nil, strings.Replace(tls, "%s", "0", 1)},
		"used":        {with, used, strings.Replace(tls, "%s", "6379", 1)},
		"used, again": {with, changed, strings.Replace(tls, "%s", "6379", 1)},
		"closed":      {&closing, changed, strings.Replace(tls, "%s", "0", 1)},
		"back":        {without, changed, "port 6379\ntls-port 0\n"},
		"never":       {without, used, "port 6379\n"},
	} {
		var got strings.Builder
		for _, d := range c.server.directives(state{ours: c.ours}) {
			if strings.HasPrefix(d.key, "tls-") || d.key == "port" {
				got.WriteString(d.key + " " + d.value + "\n")
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: got\n%swant\n%s", name, &got, c.want)
		}
	}
}

func TestSplitArgs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`requirepass foo`:                {"requirepass", "foo"},
		`requirepass "a b\"\x41\n" # no`: {"requirepass", "a b\"A\n", "#", "no"},
		`x 'it\'s' ""`:                   {"x", "it's", ""},
		"\t bind  127.0.0.1   -::1\r":    {"bind", "127.0.0.1", "-::1"},
		`save ""`:                        {"save", ""},
	} {
		if got, err := splitArgs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`x "a`, `x 'a`, `x "a"b`, `x "`} {
		if got, err := splitArgs(text); err == nil {
			t.Errorf("%s: got %q, want an error", text, got)
		}
	}
}

func FuzzQuoteArg(f *testing.F) {
	f.Add("pass word")
	f.Add("\\\"'\x00\xff\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := splitArgs(quoteArg(text)); err != nil || !slices.Equal(got, []string{text}) {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	})
}

func TestOverridden(t *testing.T) {
	t.Parallel()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{
		"# requirepass x\nsave 60 1\nmaxmemory-policy NOEVICTION\n": "",
		"\nmaxmemory-policy allkeys-lru\n":                          "/etc/redis/redis.conf:4: maxmemory-policy is set again",
		"requirepass foo\n":                                         "/etc/redis/redis.conf:3: requirepass is set again",
		"bind 0.0.0.0\n":                                            "hint: remove the line",
	} {
		lines, err := parseConf(s.product.main, "maxmemory-policy allkeys-lru\ninclude /etc/redis/urifilter.conf\n"+after)
		if err != nil {
			t.Fatal(err)
		}
		err = s.overridden(state{lines: lines, include: included(lines, s.product.settings())})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q in it", after, err, want)
		}
	}
}

func TestParseReplies(t *testing.T) {
	t.Parallel()
	got, err := parseReplies("OK\n--urifilter--\nPONG\n--urifilter--\nmaxmemory\n0\n", 2)
	if err != nil || !slices.Equal(got, []string{"PONG", "maxmemory\n0"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err = parseReplies("--urifilter--\nPONG\n--urifilter--\n\n", 2); err != nil || !slices.Equal(got, []string{"PONG", ""}) {
		t.Errorf("without a password: got %q, %v", got, err)
	}
	if _, err = parseReplies("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\n\n--urifilter--\nPONG\n", 1); err != nil {
		t.Errorf("a password that is not asked for: %v", err)
	}
	if _, err = parseReplies("ERR Client sent AUTH, but no password is set\n\n--urifilter--\nPONG\n", 1); err != nil {
		t.Errorf("the same before version 6: %v", err)
	}
	for text, want := range map[string]string{
		"NOAUTH Authentication required.\n\nNOAUTH Authentication required.\n":                                             "NOAUTH",
		"WRONGPASS invalid username-password pair or user is disabled.\n\nNOAUTH x\n":                                      "WRONGPASS",
		"Could not connect to Redis at 127.0.0.1:6379: Connection refused\n":                                               "Could not connect",
		"OK\n--urifilter--\nERR Unsupported CONFIG parameter: bind\n\n":                                                    "ERR Unsupported CONFIG",
		"OK\n--urifilter--\nPONG\nCould not connect to Redis at 127.0.0.1:6379: Connection refused\n--urifilter--\nPONG\n": "Could not connect",
		"OK\n": "0 replies to 1 commands",
	} {
		if got, err := parseReplies(text, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want %q in it", text, got, err, want)
		}
	}
}

func TestBytesOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"4gb": 4 << 30, "4G": 4e9, "100mb": 100 << 20, "7": 7, "5k": 5000, "5KB": 5120, "12b": 12} {
		if got := bytesOf(text); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
