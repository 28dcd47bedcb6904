package daemon_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// The daemon keeps the same contract of package client as the server in that package's tests.
func TestDaemonKeepsTheClientsContract(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	var specs []engine.Spec
	for _, f := range configs.Default().Filters {
		f.Params = configs.Bloom{Capacity: 100_000, ErrorRate: 0.0001, OnFull: "warn"}
		specs = append(specs, f)
	}
	e, err := engine.Open(t.Context(), store, engine.Settings{Filters: specs, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	options := apitest.Options(t, e, log)
	options.Defaults.Capacity = 100_000
	server := httptest.NewServer(api.New(options))
	t.Cleanup(server.Close)
	clienttest.Contract(t, server.URL)
}
