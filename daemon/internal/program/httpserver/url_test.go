package httpserver

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

// The URL in the log and in the status is one that can be called, whatever the socket is for.
func TestTheURLCanBeCalled(t *testing.T) {
	for listens, host := range map[string]string{
		":0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "127.0.0.1:0": "127.0.0.1", "[::]:0": "[::1]", "[::1]:0": "[::1]",
	} {
		s, err := Open(Options{Options: listen.Options{Program: "some", Address: listens}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			if strings.HasPrefix(listens, "[") { // a machine without IPv6
				t.Logf("%s: %v", listens, err)
			} else {
				t.Errorf("%s: %v", listens, err)
			}
			continue
		}
		_, port, _ := net.SplitHostPort(s.Addr().String())
		if want := "http://" + host + ":" + port; s.URL() != want {
			t.Errorf("%s: got %s, want %s", listens, s.URL(), want)
		}
		if conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://")); err != nil {
			t.Errorf("%s: %v", listens, err)
		} else {
			conn.Close()
		}
		s.Close()
	}
}

// A socket of systemd counts, not the settings: it may be for IPv6 only, or a path.
func TestTheURLOfASocketHandedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, test := range []struct{ network, address, want string }{
		{"tcp4", "0.0.0.0:0", "https://127.0.0.1:PORT"},
		{"tcp6", "[::]:0", "https://[::1]:PORT"},
		{"unix", path, path},
	} {
		l, err := net.Listen(test.network, test.address)
		if err != nil {
			if test.network == "tcp6" { // a machine without IPv6
				t.Logf("%+v: %v", test, err)
			} else {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		s := &Server{opt: Options{Options: listen.Options{Address: ":8000"}, Certificate: new(secret.Certificate)}, listeners: []net.Listener{l}, handed: true}
		if want := strings.ReplaceAll(test.want, "PORT", port); s.URL() != want {
			t.Errorf("%+v: got %s, want %s", test, s.URL(), want)
		}
	}
}
