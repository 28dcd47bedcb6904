package httpserver

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

// A request knows that it came by TLS, which is put on below package http: cookies and addresses depend on it.
func TestRequestsKnowOfTheirTLS(t *testing.T) {
	authority := certtest.New(t, "test")
	pair := authority.Issue(t, "server", time.Hour, "127.0.0.1")
	certificate, err := secret.OpenCertificate(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Options: listen.Options{Address: "127.0.0.1:0"}, Certificate: certificate, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle(Handling{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.TLS != nil && r.TLS.HandshakeComplete)
	}), HeaderTimeout: time.Minute, Registry: prometheus.NewRegistry()})
	s.Serve()
	t.Cleanup(func() { _ = s.Close() })
	for _, second := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Roots()}, ForceAttemptHTTP2: second, DisableKeepAlives: true}
		answer, err := (&http.Client{Transport: transport}).Get("https://" + s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if want := map[bool]string{false: "HTTP/1.1 true", true: "HTTP/2.0 true"}[second]; string(text) != want || err != nil {
			t.Errorf("got %q, %v; want %q", text, err, want)
		}
	}
}
