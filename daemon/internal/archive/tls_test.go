package archive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
)

// TestTLS connects, by the settings and by the URI, to a server that requires certificates
// from its clients, and tests what an operator is told if something is wrong.
func TestTLS(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	authority, other := certtest.New(t, "authority"), certtest.New(t, "other")
	pair, named := authority.Issue(t, "server", day, "127.0.0.1"), authority.Issue(t, "named", day, "mongo.example")
	client, strange := authority.Issue(t, "daemon", day), other.Issue(t, "strange", day)
	server := mongotest.New(t, mongotest.Options{CA: authority.File, Cert: pair.Cert, Key: pair.Key})
	elsewhere := mongotest.New(t, mongotest.Options{CA: authority.File, Cert: named.Cert, Key: named.Key})
	plain := mongotest.New(t, mongotest.Options{})
	dialer := func(f tlsdial.Files) *tlsdial.Dialer {
		t.Helper()
		d, err := tlsdial.Open("mongodb", f, time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	files := tlsdial.Files{CA: authority.File, Cert: client.Cert, Key: client.Key}
	byName := files
	byName.ServerName = "mongo.example"
	for name, o := range map[string]Options{
		"settings": {URI: server.URI(), TLS: dialer(files)},
		"name":     {URI: elsewhere.URI(), TLS: dialer(byName)},
		"URI":      {URI: server.URI() + "?tls=true&tlsCAFile=" + authority.File + "&tlsCertificateFile=" + client.Cert + "&tlsPrivateKeyFile=" + client.Key},
	} {
		o.Timeout = 5 * time.Minute // on a busy machine a handshake takes seconds
		a, err := Open(context.Background(), o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"authority of the system": {Options{URI: server.URI(), TLS: dialer(tlsdial.Files{Cert: client.Cert, Key: client.Key})}, "hint: mongodb.tls_ca_file must hold the authority"},
		"the same by the URI":     {Options{URI: server.URI() + "?tls=true"}, "hint: mongodb.tls_ca_file must hold the authority"},
		"another name":            {Options{URI: elsewhere.URI(), TLS: dialer(files)}, "mongodb.tls_server_name"},
		"no client certificate":   {Options{URI: server.URI(), TLS: dialer(tlsdial.Files{CA: authority.File})}, "mongodb.tls_cert_file"},
		"strange client":          {Options{URI: server.URI(), TLS: dialer(tlsdial.Files{CA: authority.File, Cert: strange.Cert, Key: strange.Key})}, "mongodb.tls_cert_file"},
		"plain server":            {Options{URI: plain.URI(), TLS: dialer(files)}, "mongodb.tls: false"},
		"TLS where it is not set": {Options{URI: server.URI()}, "mongodb.tls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			right := func(err error) bool {
				return strings.Contains(err.Error(), c.want) && (errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotMongoDB))
			}
			if err := refused(t, c.o, right); !right(err) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
