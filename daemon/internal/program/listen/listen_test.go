package listen

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func listenOn(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestOpenAtTheAddress(t *testing.T) {
	all, handed, err := Open(Options{Program: "some", Address: "127.0.0.1:0"})
	if err != nil || len(all) != 1 || handed {
		t.Fatalf("got %v, %t, %v", all, handed, err)
	}
	defer all[0].Close()
	_, _, err = Open(Options{Program: "some", Address: all[0].Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "hint: is some already running there?") {
		t.Errorf("an address in use: %v", err)
	}
}

// Sockets from systemd override the settings, but are still subject to the rule about tokens.
func TestHandedOver(t *testing.T) {
	open, closed := listenOn(t, "tcp", "0.0.0.0:0"), listenOn(t, "tcp", "127.0.0.1:0")
	path := listenOn(t, "unix", filepath.Join(t.TempDir(), "s"))
	_, port, _ := net.SplitHostPort(open.Addr().String())
	for name, c := range map[string]struct {
		address string
		guarded bool
		handed  []net.Listener
		wrong   string
		logged  bool
	}{
		"that of the settings":            {closed.Addr().String(), false, []net.Listener{closed}, "", false},
		"all interfaces":                  {":" + port, true, []net.Listener{open}, "", false},
		"all interfaces, nobody is asked": {":" + port, false, []net.Listener{open}, "hint: set auth.some in the settings, or ListenStream=127.0.0.1:... in some.socket", false},
		"another one":                     {"127.0.0.1:1", false, []net.Listener{closed}, "", true},
		"a path":                          {"127.0.0.1:1", false, []net.Listener{path}, "", true},
		"no stream":                       {closed.Addr().String(), false, []net.Listener{closed, nil}, "socket 2 handed over by systemd: no stream", false},
	} {
		var log bytes.Buffer
		o := Options{Program: "some", Address: c.address, Guarded: c.guarded, Guard: "auth.some", Log: slog.New(slog.NewTextHandler(&log, nil))}
		err := o.check(c.handed)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
		if got := strings.Contains(log.String(), "some service install --now"); got != c.logged {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}
