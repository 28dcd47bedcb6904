package configs_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// All programs call a daemon on their own machine at the same URL. For the wildcard of IPv6,
// its host is ::1, because the daemon may listen on IPv6 only.
func TestTheURLOfAListenAddress(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8000":  "http://127.0.0.1:8000",
		"0.0.0.0:9000":    "http://127.0.0.1:9000",
		":9000":           "http://127.0.0.1:9000",
		"[::]:9000":       "http://[::1]:9000",
		"[::1]:9000":      "http://[::1]:9000",
		"localhost:9000":  "http://localhost:9000",
		"192.0.2.7:18000": "http://192.0.2.7:18000",
	} {
		c := configs.Default()
		c.Listen = listen
		if got := c.URL(); got != want {
			t.Errorf("%s: got %s, want %s", listen, got, want)
		}
	}
	c := configs.Default()
	c.TLS.CertFile = "/etc/c.pem"
	if got := c.URL(); got != "https://127.0.0.1:8000" {
		t.Errorf("with a certificate: %s", got)
	}
}
