package sandbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/aptrepo"
)

// TestSystemRepository installs FerretDB by its address and key, as an operator would.
func TestSystemRepository(t *testing.T) {
	t.Parallel()
	s := up(t, sandbox.Options{Repository: true, Hosts: []sandbox.Spec{{Name: "book"}, {Name: "trix", Release: "trixie"}}})
	r := s.Repository
	for _, h := range s.Hosts {
		t.Run(h.Release, func(t *testing.T) {
			t.Parallel()
			list := func(suite string) {
				execute(t, h, "echo 'deb [signed-by=/etc/apt/keyrings/f.asc] "+r.URL+" "+suite+" "+r.Component+"' >/etc/apt/sources.list.d/f.list")
			}
			update := "apt-get update -q -o Dir::Etc::sourcelist=sources.list.d/f.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 --error-on=any"
			list(r.Suite)
			if _, err := h.Exec(t.Context(), update); err == nil || !strings.Contains(err.Error(), "/etc/apt/keyrings/f.asc") && !strings.Contains(err.Error(), "NO_PUBKEY") {
				t.Errorf("without the key: %v", err)
			}
			execute(t, h, "/usr/lib/apt/apt-helper download-file "+r.KeyURL+" /etc/apt/keyrings/f.asc >&2")
			execute(t, h, "echo FERRETDB_LISTEN_ADDR="+h.Address+":27017 >/etc/default/ferretdb; "+update+" >&2 && apt-get install -q -y --no-install-recommends "+r.Package+" >&2")
			if got := execute(t, h, "systemctl is-active ferretdb; systemctl is-enabled ferretdb; stat -c %U:%a /var/lib/ferretdb"); got != "active\nenabled\nferretdb:700" {
				t.Errorf("installed, it is %q", got)
			}
			client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + h.Address + ":27017/").SetServerSelectionTimeout(20 * time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Disconnect(context.Background())
			docs := client.Database("d").Collection("c")
			if _, err := docs.InsertOne(t.Context(), bson.M{"_id": 1}); err != nil {
				t.Fatal(err)
			}
			if err := h.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := docs.CountDocuments(t.Context(), bson.M{}); n != 1 || err != nil {
				t.Errorf("%d documents after the reboot, %v; want 1", n, err)
			}
			list(aptrepo.Tampered)
			if _, err := h.Exec(t.Context(), update); err == nil {
				t.Error("a changed index is accepted")
			}
			list(aptrepo.Broken)
			execute(t, h, update+" >&2 && apt-get install -q -y --only-upgrade "+r.Package+" >&2")
			// systemd starts it again and again, and reports it as active each time until it
			// ends.
			execute(t, h, `until [ "$(journalctl -u ferretdb | grep -c 'cannot open database')" -ge 2 ]; do
				[ $((n=n+1)) -lt 600 ] || { systemctl status ferretdb; exit 1; } >&2
				sleep 0.2
			done`)
			execute(t, h, "apt-get purge -q -y "+r.Package+" >&2")
			if got := execute(t, h, "systemctl is-active ferretdb; ls /var/lib/ferretdb 2>&1 || true"); !strings.Contains(got, "No such file") {
				t.Errorf("purged: %q", got)
			}
		})
	}
}
