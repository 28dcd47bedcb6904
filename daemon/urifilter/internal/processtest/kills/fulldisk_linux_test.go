package kills_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// On a full disk batches are refused completely and nothing acknowledged is lost; the
// daemon goes on automatically when there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"{id: 1, name: uri, capacity: 300000}", "{id: 1, name: uri, kind: timing, expire: 24h}"} {
		t.Run(filter, func(t *testing.T) {
			t.Parallel()
			fullDisk(t, filter)
		})
	}
}

func fullDisk(t *testing.T, filter string) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("needs the right to mount a small tmpfs (run as root): %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	env := []string{"URIFILTER_FILTERS=[" + filter + "]"}
	p := processtest.Start(t, dir, env)
	c := &processtest.Crasher{}
	refusedAt, answer := 0, ""
	for refusedAt == 0 {
		r := [2]int{c.Next, c.Next + 5000}
		status, text, err := p.Post(context.Background(), "/api/v1/filter", c.Body(r))
		switch {
		case err != nil:
			t.Fatalf("%v\n%s", err, p.Log)
		case status == http.StatusOK:
			c.Acked, c.Next = append(c.Acked, r), r[1]
		default:
			refusedAt, answer = status, text
		}
		if c.Next > 20_000_000 {
			t.Fatal("the disk does not get full")
		}
	}
	if refusedAt != http.StatusInsufficientStorage {
		t.Errorf("status %d, want 507: %s", refusedAt, answer)
	}
	processtest.MustContain(t, answer, "insufficient_storage")
	if status, text, _ := p.Get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s, want 503", status, text)
	}
	// Nothing of the refused batch was remembered.
	status, text, err := p.Post(context.Background(), "/api/v1/check", c.Body([2]int{c.Next, c.Next + 5000}))
	if err != nil || status != http.StatusOK || strings.Count(text, "false") > 20 {
		t.Errorf("check of the refused batch: %d, %v: %.200s", status, err, text)
	}
	if err := c.MustRemember(p, nil); err != nil {
		t.Error(err)
	}
	// Killed and started on the full disk, it still knows everything.
	_ = p.End(syscall.SIGKILL)
	p = processtest.Begin(t, dir, env)
	check := func() {
		t.Helper()
		for _, r := range c.Acked {
			status, text, err := p.Post(context.Background(), "/api/v1/check", c.Body(r))
			var got client.CheckResult // it may also say that the filter is over its capacity
			if err == nil && status == http.StatusOK {
				err = json.Unmarshal([]byte(text), &got)
			}
			if err != nil || status != http.StatusOK || slices.Contains(got.New, true) {
				t.Fatalf("status %d, %v: acknowledged items %v are new: %.200s\n%s", status, err, r, text, p.Log)
			}
		}
	}
	processtest.AwaitLive(t, p)
	check()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	p.AwaitReady()
	r := [2]int{c.Next, c.Next + 5000}
	if got := p.MustPost("/api/v1/filter", c.Body(r), 200); strings.Count(got, "https:") < 4950 {
		t.Errorf("with space again: %.200s", got)
	}
	c.Acked = append(c.Acked, r)
	_ = p.End(syscall.SIGKILL)
	p = processtest.Start(t, dir, env)
	check()
}
