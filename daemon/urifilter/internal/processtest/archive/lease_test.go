package archive_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// blank is a bit-map to write back.
type blank struct{ h bloom.Header }

func (b blank) Header() bloom.Header { return b.h }
func (b blank) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	return buf[:b.h.StripeSize(i)], nil
}

// While another process is writing back, the answer names it; afterwards it works.
func TestUpdateWhileAnotherHasTheLease(t *testing.T) {
	t.Parallel()
	uri := mongotest.Start(t)
	env := processtest.WithArchive(uri)
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	p.WantFresh(0, 10, 10)
	asking := append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
	holds, release := make(chan struct{}), make(chan struct{})
	other, err := archive.Open(t.Context(), archive.Options{URI: uri, Owner: "another-host:77", Fault: func(step string) error {
		if step == "latest" {
			close(holds)
			<-release
			return errors.New("given up")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	h, err := bloom.NewHeader(1000, 0.01, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		_, _ = other.Writeback(t.Context(), engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}, blank{h}, nil)
	})
	<-holds
	status, answer, err := p.Post(t.Context(), "/api/v1/filters/uri/writeback", "")
	if err != nil || status != 409 || !strings.Contains(answer, `"lease_held"`) || !strings.Contains(answer, "another-host:77 until 20") {
		t.Errorf("%d %s %v", status, answer, err)
	}
	code, _, errOut := processtest.Command(t, dir, asking, "bitmap", "update", "--wait", "0", "uri")
	if code != 1 || !strings.Contains(errOut, "another-host:77") || !strings.Contains(errOut, "hint: try again") {
		t.Errorf("%d %s", code, errOut)
	}
	var left string
	code, left, errOut = processtest.Command(t, dir, asking, "bitmap", "update", "--yield", "uri")
	if code != 0 || left != "uri: left to the daemon that is writing it back\n" {
		t.Errorf("--yield: %d %s %s", code, left, errOut)
	}
	_, metrics, _ := p.Get("/metrics")
	processtest.MustContain(t, metrics, `urifilter_writeback_failures_total{filter="uri"} 0`)
	// Two at once wait for that one, and for each other.
	var both sync.WaitGroup
	var outs, errs [2]testserver.Log
	path := processtest.Binary(t)
	for i := range errs {
		cmd := exec.Command(path, "bitmap", "update", "uri")
		cmd.Env = append(append(os.Environ(), "URIFILTER_DATA_DIR="+dir), asking...)
		cmd.Stdout, cmd.Stderr = &outs[i], &errs[i]
		both.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("two at once: %v", err)
			}
		})
	}
	// One of the two may meet the other instead of the other host.
	waits := func(i int) bool { return strings.Contains(errs[i].String(), "waits up to 10m0s: ") }
	for end := time.Now().Add(5 * time.Minute); !(waits(0) && waits(1)) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	close(release)
	ended.Wait()
	both.Wait()
	for i := range outs {
		if !waits(i) || !strings.Contains(outs[i].String(), "uri: written") {
			t.Errorf("two at once: %s %s", outs[i].String(), errs[i].String())
		}
	}
	processtest.MustContain(t, errs[0].String()+errs[1].String(), "another-host:77")
	out, _ := processtest.MustCommand(t, dir, asking, "bitmap", "update", "uri")
	processtest.MustContain(t, out, "uri: written", "about 10 items")
}

// writeback.interval makes versions automatically, and a stop does not wait for one.
func TestWritebackInterval(t *testing.T) {
	t.Parallel()
	uri := mongotest.Start(t)
	cfg := configs.Default()
	cfg.Listen, cfg.DataDir, cfg.MongoDB.URI = "127.0.0.1:0", t.TempDir(), uri
	cfg.Filters = []configs.Filter{{ID: 1, Name: "uri", Params: configs.Bloom{Capacity: 1000}}, {ID: 2, Name: "ip", Params: configs.Bloom{Capacity: 1000}}}
	cfg.Writeback.Interval = 50 * time.Millisecond // less than Validate allows
	log := &testserver.Log{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	d, err := server.New(ctx, cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, nil) }()
	a, err := archive.Open(t.Context(), archive.Options{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	testserver.Await(t, "a copy of ip", func() bool {
		v, err := a.Latest(t.Context(), "ip")
		return err == nil && v.ID >= "ip-3"
	}, log)
	c, err := client.New("http://" + d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if f, err := c.GetFilter(t.Context(), "uri"); err != nil || f.LastWriteback == nil {
		t.Errorf("uri: %+v, %v", f, err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v\n%s", err, log)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("does not stop\n%s", log)
	}
	for _, name := range []string{"uri", "ip"} {
		if v, err := a.Latest(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := a.Verify(t.Context(), v, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
