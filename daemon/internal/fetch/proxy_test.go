package fetch

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// pipe passes bytes on between two connections until one of them ends.
func pipe(a, b net.Conn) {
	done := make(chan bool)
	go func() { _, _ = io.Copy(a, b); _ = a.Close(); _ = b.Close(); close(done) }()
	_, _ = io.Copy(b, a)
	_, _ = a.Close(), b.Close()
	<-done
}

// httpProxy does CONNECT for clients that know the password, and itself answers requests with a whole URI.
func httpProxy(conn net.Conn, request string) {
	line, _, _ := strings.Cut(request, "\r\n")
	method, rest, _ := strings.Cut(line, " ")
	target, _, _ := strings.Cut(rest, " ")
	switch {
	case !strings.Contains(request, "Proxy-Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("me:secret"))):
		say(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", false)
	case method != http.MethodConnect:
		say(conn, ok("by proxy: "+target), false)
	default:
		to, err := net.Dial("tcp", target)
		if err != nil {
			say(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n", false)
			return
		}
		say(conn, "HTTP/1.1 200 OK\r\n\r\n", false)
		pipe(conn, to)
	}
}

// socksProxy is a SOCKS5 server with the same password. It records its requests.
func socksProxy(asked chan<- string) func(conn net.Conn) {
	return func(conn net.Conn) {
		read := func(n int) []byte { b := make([]byte, n); _, _ = io.ReadFull(conn, b); return b }
		read(int(read(2)[1]))
		say(conn, "\x05\x02", false)
		user := string(read(int(read(2)[1])))
		if password := string(read(int(read(1)[0]))); user != "me" || password != "secret" {
			say(conn, "\x01\x01", false)
			return
		}
		say(conn, "\x01\x00", false)
		var host string
		switch head := read(4); head[3] {
		case 1:
			host = netip.AddrFrom4([4]byte(read(4))).String()
		case 3:
			host = string(read(int(read(1)[0])))
		}
		port := read(2)
		address := net.JoinHostPort(host, strconv.Itoa(int(port[0])<<8|int(port[1])))
		asked <- address
		to, err := net.Dial("tcp", address)
		if err != nil {
			say(conn, "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", false)
			return
		}
		say(conn, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", false)
		pipe(conn, to)
	}
}

// list makes a list for which no time passes: a proxy that fails is never tried again.
func list(t testing.TB, uris ...string) *proxies.List {
	t.Helper()
	now := time.Now()
	l, err := proxies.New(uris, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each kind of proxy, to servers with and without TLS, with a right password and a wrong one, and
// to a missing server.
func TestProxies(t *testing.T) {
	authority := certtest.New(t, "authority")
	with := certificate(t, authority.Issue(t, "server", time.Hour, "127.0.0.1", "localhost"))
	page := func(conn net.Conn, _ string) { say(conn, ok("page"), false) }
	bare, secure := serve(t, nil, page), serve(t, with, page)
	asked := make(chan string, 100)
	byHTTP, byTLS := serve(t, nil, httpProxy).listener.Addr().String(), serve(t, with, httpProxy).listener.Addr().String()
	bySocks := plain(t, socksProxy(asked))
	nobody := testserver.Free(t)
	f := fetcher(t, Options{Roots: authority.Roots()})
	t.Cleanup(f.Close) // the proxies wait for this
	_, port, _ := net.SplitHostPort(secure.listener.Addr().String())
	overTLS := "https://localhost:" + port + "/"
	for _, test := range []struct{ proxy, to, want string }{ // want is a reason, or the answer
		{"http://me:secret@" + byHTTP, bare.uri(), "by proxy: " + bare.uri()},
		{"http://me:secret@" + byHTTP, overTLS, "page"},
		{"http://me:wrong@" + byHTTP, bare.uri(), "proxy"},
		{"http://me:wrong@" + byHTTP, overTLS, "proxy"},
		{"http://me:secret@" + byHTTP, "https://" + nobody, "proxy_target"},
		{"http://" + nobody, bare.uri(), "proxy"},
		{"http://" + nobody, overTLS, "proxy"},
		{"https://me:secret@" + byTLS, bare.uri(), "by proxy: " + bare.uri()},
		{"https://me:secret@" + byTLS, overTLS, "page"},
		{"https://me:secret@" + byHTTP, overTLS, "proxy"}, // it speaks no TLS
		{"https://me:secret@" + byTLS, "https://" + nobody, "proxy_target"},
		{"socks5://me:secret@" + bySocks, bare.uri(), "page"},
		{"socks5://me:secret@" + bySocks, overTLS, "page"},
		{"socks5h://me:secret@" + bySocks, overTLS, "page"},
		{"socks5://me:wrong@" + bySocks, bare.uri(), "proxy"},
		{"socks5://me:secret@" + bySocks, "http://" + nobody, "proxy_target"},
		{"socks5://me:secret@" + nobody, bare.uri(), "proxy"},
	} {
		l := list(t, test.proxy)
		limit := time.Minute
		if test.proxy == "https://me:secret@"+byHTTP {
			limit = 2 * time.Second // the test takes that long: the proxy waits for more, as does the client
		}
		_, text, e := get(t, f, Request{URI: test.to, Proxies: l, Connect: limit})
		if e != nil {
			text = string(e.Reason)
			if strings.Contains(e.Error(), "secret") {
				t.Errorf("the password is shown: %v", e)
			}
		}
		if text != test.want {
			t.Errorf("%s to %s: got %q (%v), want %q", test.proxy, test.to, text, e, test.want)
		}
		if healthy := l.Healthy() == 1; healthy != (test.want != "proxy") {
			t.Errorf("%s to %s: healthy %t", test.proxy, test.to, healthy)
		}
	}
	close(asked)
	var names []string
	for address := range asked {
		host, _, _ := net.SplitHostPort(address)
		names = append(names, host)
	}
	if got := strings.Join(names, " "); got != "127.0.0.1 127.0.0.1 localhost 127.0.0.1" {
		t.Errorf("the SOCKS proxy was asked for %s", got)
	}
	// Of two proxies the failing one is skipped, and if none is left the error says until when.
	l := list(t, "http://"+nobody, "http://me:secret@"+byHTTP)
	failed := 0
	for range 6 {
		if _, _, e := get(t, f, Request{URI: bare.uri(), Proxies: l}); e != nil {
			failed++
		}
	}
	if failed != 1 || l.Healthy() != 1 {
		t.Errorf("%d of 6 failed, %d proxies are healthy", failed, l.Healthy())
	}
	l = list(t, "http://"+nobody)
	_, _, _ = get(t, f, Request{URI: bare.uri(), Proxies: l})
	if _, _, e := get(t, f, Request{URI: bare.uri(), Proxies: l}); e == nil || e.Reason != Proxy || e.Permanent || e.After <= 0 || e.After > proxies.First {
		t.Errorf("none left: got %+v", e)
	}
}

// The name of a forbidden target is not sent to a proxy, either.
func TestProxyIsNotAskedForRefused(t *testing.T) {
	proxy := serve(t, nil, func(net.Conn, string) { t.Error("the proxy was asked") })
	f := fetcher(t, Options{Guard: guard.New(guard.Options{}), Resolver: resolver(t, map[string][]string{"inner.example.": {"93.184.215.14", "10.0.0.1"}})})
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "inner.example", "localhost"} {
		if _, _, e := get(t, f, Request{URI: "http://" + host + "/", Proxies: list(t, proxy.uri())}); e == nil || e.Reason != RefusedAddress {
			t.Errorf("%s: got %v", host, e)
		}
	}
}

// A proxy is called only where a host may be called, or where the operator allows it: by its address or its
// name, whatever it speaks. The next one of the list is used instead.
func TestProxyIsGuarded(t *testing.T) {
	asked := make(chan string, 100)
	secret := func(conn net.Conn, _ string) {
		asked <- conn.LocalAddr().String()
		say(conn, ok("a secret of the network"), false)
	}
	inside := serve(t, nil, secret).listener.Addr().String()
	raw := plain(t, func(conn net.Conn) { asked <- conn.LocalAddr().String() })
	_, port, _ := net.SplitHostPort(inside)
	names := resolver(t, map[string][]string{"inner.example.": {"127.0.0.1"}, "metadata.example.": {"169.254.169.254"}, "page.example.": {"93.184.215.14"}})
	closed := fetcher(t, Options{Guard: guard.New(guard.Options{}), Resolver: names})
	for _, proxy := range []string{
		"http://" + inside, "https://" + inside, "socks5://" + raw, "socks5h://" + raw, "http://inner.example:" + port, "socks5://inner.example:" + port,
		"http://169.254.169.254", "http://metadata.example", "http://[::ffff:127.0.0.1]:" + port, "http://user:password@" + inside,
	} {
		for _, scheme := range []string{"http", "https"} {
			l := list(t, proxy)
			_, text, e := get(t, closed, Request{URI: scheme + "://page.example/", Proxies: l})
			if e == nil || e.Reason != RefusedProxy || e.Permanent || l.Healthy() != 0 || strings.Contains(e.Error(), "password") {
				t.Errorf("%s for %s: got %q and %v", proxy, scheme, text, e)
			}
		}
	}
	select {
	case at := <-asked:
		t.Errorf("%s was connected to", at)
	default:
	}
	named := fetcher(t, Options{Resolver: names, Guard: guard.New(guard.Options{Proxies: func(host string, _ netip.AddrPort) bool { return host == "inner.example" || host == "metadata.example" }})})
	for proxy, want := range map[string]Reason{"http://inner.example:" + port: "", "http://" + inside: RefusedProxy, "http://metadata.example": RefusedProxy} {
		_, _, e := get(t, named, Request{URI: "http://page.example/", Proxies: list(t, proxy)})
		if want == "" && e != nil || want != "" && (e == nil || e.Reason != want) {
			t.Errorf("%s, where one name is allowed: got %v, want %s", proxy, e, want)
		}
	}
	l := list(t, "http://"+inside, "http://inner.example:"+port)
	_, _, first := get(t, named, Request{URI: "http://page.example/", Proxies: l})
	if _, text, e := get(t, named, Request{URI: "http://page.example/", Proxies: l}); first == nil || text != "a secret of the network" {
		t.Errorf("one of two is refused: %v, then %q and %v", first, text, e)
	}
}

// resolver uses a DNS server that knows those names, and gives no answer for silent.example.
func resolver(t testing.TB, names map[string][]string) *net.Resolver {
	t.Helper()
	return testserver.Names(t, names)
}

func TestNames(t *testing.T) {
	s := serve(t, nil, func(conn net.Conn, _ string) { say(conn, ok("page"), false) })
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	names := resolver(t, map[string][]string{"here.example.": {"127.0.0.1"}, "metadata.example.": {"169.254.169.254"}, "both.example.": {"169.254.169.254", "127.0.0.1"}})
	f := fetcher(t, Options{Resolver: names})
	t.Cleanup(f.Close)
	closed := fetcher(t, Options{Resolver: names, Guard: guard.New(guard.Options{})})
	for _, test := range []struct {
		f    *Fetcher
		host string
		want Reason
	}{
		{f, "here.example", ""}, {f, "HERE.example.", ""}, {f, "both.example", ""}, // by the allowed address
		{f, "metadata.example", RefusedAddress}, {closed, "here.example", RefusedAddress}, {closed, "both.example", RefusedAddress},
		{f, "none.example", DNSNotFound}, {f, "broken.example", DNS}, {f, "silent.example", TimeoutConnect},
	} {
		limit := time.Minute
		if test.want == TimeoutConnect {
			limit = 2 * time.Second // the test takes that long
		}
		_, text, e := get(t, test.f, Request{URI: "http://" + test.host + ":" + port + "/", Connect: limit})
		if test.want == "" && text != "page" || test.want != "" && (e == nil || e.Reason != test.want) {
			t.Errorf("%s: got %q and %v, want %s", test.host, text, e, test.want)
		}
	}
}
