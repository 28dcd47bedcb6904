package httpserver

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

// A warning at the start says that others could read the tokens on the network.
func TestTokensInPlainTextAreWarnedOf(t *testing.T) {
	for _, test := range []struct {
		network, address           string
		guarded, encrypted, warned bool
	}{
		{"tcp", "0.0.0.0:0", true, false, true},
		{"tcp", "0.0.0.0:0", true, true, false},
		{"tcp", "0.0.0.0:0", false, false, false}, // refused otherwise
		{"tcp", "127.0.0.1:0", true, false, false},
		{"unix", filepath.Join(t.TempDir(), "s"), true, false, false},
	} {
		l, err := net.Listen(test.network, test.address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var log bytes.Buffer
		s := &Server{opt: Options{Options: listen.Options{Guarded: test.guarded}, Log: slog.New(slog.NewTextHandler(&log, nil))}, listeners: []net.Listener{l}}
		if test.encrypted {
			s.opt.Certificate = new(secret.Certificate)
		}
		s.warnPlainText()
		if got := strings.Contains(log.String(), "plain text"); got != test.warned {
			t.Errorf("%+v: logged %q", test, log.String())
		}
	}
}
