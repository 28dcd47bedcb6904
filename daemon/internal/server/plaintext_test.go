package server

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// Who lets tokens travel where others can read them is told at the start.
func TestTokensInPlainTextAreWarnedOf(t *testing.T) {
	for _, test := range []struct {
		network, address, tokens, cert string
		warned                         bool
	}{
		{"tcp", "0.0.0.0:0", "tokens.yaml", "", true},
		{"tcp", "0.0.0.0:0", "tokens.yaml", "cert.pem", false},
		{"tcp", "0.0.0.0:0", "", "", false}, // refused otherwise
		{"tcp", "127.0.0.1:0", "tokens.yaml", "", false},
		{"unix", filepath.Join(t.TempDir(), "s"), "tokens.yaml", "", false},
	} {
		l, err := net.Listen(test.network, test.address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cfg := configs.Default()
		cfg.Auth.TokensFile, cfg.TLS.CertFile = test.tokens, test.cert
		var log bytes.Buffer
		warnPlainText([]net.Listener{l}, cfg, slog.New(slog.NewTextHandler(&log, nil)))
		if got := strings.Contains(log.String(), "plain text"); got != test.warned {
			t.Errorf("%+v: logged %q", test, log.String())
		}
	}
}
