package bitmap

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// A version that cannot be used, of a filter of the settings or of another one, does not keep init from
// making the other filters.
func TestInitPastAVersionThatCannotBeUsed(t *testing.T) {
	cfg := configs.Default()
	cfg.DataDir, cfg.MongoDB.URI, cfg.MongoDB.Database = t.TempDir(), mongotest.Shared(t).URI(), "urifilter_"+bson.NewObjectID().Hex()
	db, err := mongo.Connect(options.Client().ApplyURI(cfg.MongoDB.URI))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Disconnect(context.Background())
	for _, name := range []string{"ip", "other"} {
		newer := bson.M{"_id": name + "-1", "format": 99, "bitmap_type": bson.M{"id": 2, "name": name}, "status": "on", "number": 1}
		if _, err := db.Database(cfg.MongoDB.Database).Collection("filter_bit_map").InsertOne(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
	}
	specs := server.Specs(cfg)
	store, err := openLocal(t.Context(), cfg, specs, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	for _, spec := range specs {
		done, _, err := store.ensure(t.Context(), spec)
		if spec.Name == "ip" {
			if !errors.As(err, new(*archive.FormatError)) {
				t.Errorf("ip: %s, %v, want a *FormatError", done, err)
			}
		} else if err != nil || done != "created" {
			t.Errorf("%s: %s, %v", spec.Name, done, err)
		}
	}
}

// A filter that a daemon elsewhere drops while a command writes it back for the first time is dropped in the archive, too.
func TestDropElsewhereDuringTheFirstWriteback(t *testing.T) {
	cfg := configs.Default()
	cfg.Store, cfg.Redis.Addrs = "redis", []string{redistest.Start(t).Addr}
	cfg.MongoDB.URI, cfg.MongoDB.Database = mongotest.Shared(t).URI(), "urifilter_"+bson.NewObjectID().Hex()
	open := func() *local {
		t.Helper()
		store, err := openLocal(t.Context(), cfg, nil, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.close(); err != nil {
				t.Error(err)
			}
		})
		return store.(*local)
	}
	elsewhere := open()
	if _, err := elsewhere.writeback(t.Context(), "uri", nil); !errors.As(err, new(*engine.UnknownFilterError)) {
		t.Errorf("written back before it is there: %v", err)
	}
	params := configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "warn"}
	if _, _, err := elsewhere.engine.Create(t.Context(), engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: params}); err != nil {
		t.Fatal(err)
	}
	here := open()
	drop := sync.OnceValue(func() error { return elsewhere.engine.Drop(t.Context(), "uri") })
	_, err := here.writeback(t.Context(), "uri", func(int, int) {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := here.link.Newest(t.Context())
	if err != nil || len(all) != 1 || !all[0].Dropped {
		t.Errorf("the archive has %+v, %v", all, err)
	}
}

// told calls itself with what is written.
type told func(text string)

func (f told) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// A command waits for another one that has the data directory, where no daemon answers, and then opens it.
func TestCommandWaitsForAnotherOne(t *testing.T) {
	cfg := configs.Default()
	cfg.DataDir, cfg.Listen, cfg.MongoDB.URI, cfg.MongoDB.Database = t.TempDir(), "127.0.0.1:1", mongotest.Shared(t).URI(), "urifilter_"+bson.NewObjectID().Hex()
	lock, err := disk.AcquireLock(filepath.Join(cfg.DataDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	var flags commonFlags
	cmd := &cobra.Command{}
	flags.register(cmd, true)
	cmd.SetContext(t.Context())
	waits := 0
	cmd.SetErr(told(func(text string) {
		if strings.HasPrefix(text, "waits up to ") && strings.Contains(text, "held by process ") {
			waits++
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		}
	}))
	store, err := accessStore(cmd, &flags, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if says := store.describe(); waits != 1 || !strings.HasPrefix(says, "opening ") {
		t.Errorf("it waited %d times; %s", waits, says)
	}
	if err := store.close(); err != nil {
		t.Error(err)
	}
}

// A daemon that still loads takes calls and does not answer them: a command waits for it, and says so.
func TestCommandWaitsForADaemonThatLoads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	daemon := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"filters":[]}`) })}
	defer daemon.Close()
	for _, name := range []string{"init", "update", "restore", "status"} {
		if found, _, err := New().Find([]string{name}); err != nil || found.Flags().Lookup("wait") == nil {
			t.Errorf("%s has no --wait: %v", name, err)
		}
	}
	var flags commonFlags
	cmd := &cobra.Command{}
	flags.register(cmd, true)
	flags.server = l.Addr().String()
	if err := cmd.Flags().Set("server", flags.server); err != nil {
		t.Fatal(err)
	}
	cmd.SetContext(t.Context())
	waits := 0
	cmd.SetErr(told(func(text string) {
		if strings.HasPrefix(text, "waits up to 10m0s: the daemon at ") {
			waits++
			go daemon.Serve(l)
		}
	}))
	store, err := accessStore(cmd, &flags, configs.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	if _, err := store.filters(t.Context()); err != nil || waits != 1 {
		t.Errorf("it waited %d times; %v", waits, err)
	}
}

// Without --wait, or when it is over, the error says what may be the matter.
func TestDaemonThatDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(told(func(text string) { t.Errorf("it says %q", text) }))
	store, err := newRemote(cmd, &commonFlags{}, l.Addr().String(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	ended, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := store.filters(ended); err == nil || !strings.Contains(err.Error(), "\nhint: it may still load its filters") {
		t.Errorf("got %v", err)
	}
}
