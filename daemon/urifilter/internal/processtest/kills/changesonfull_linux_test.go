package kills_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// fill takes all space of the disk of dir, to the last byte.
func fill(t *testing.T, dir string) (remove func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(bytes.Repeat([]byte{1}, size)); err != nil {
			size /= 2
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// On a full disk a new filter is refused as what it is, those that exist can be cleared and
// dropped, and a start serves them although one of the settings cannot be made.
func TestFiltersOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Skipf("needs the right to mount a small tmpfs (run as root): %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	filters := "{id: 1, name: uri, capacity: 10000}, {id: 2, name: ip, kind: exact}, {id: 3, name: old, kind: exact}"
	p := processtest.Start(t, dir, []string{"URIFILTER_FILTERS=[" + filters + "]"})
	for _, name := range []string{"uri", "ip", "old"} {
		p.MustPost("/api/v1/filter", fmt.Sprintf(`{"filter_typeid": %q, "uri_list": ["a", "b"]}`, name), 200)
	}
	unfill := fill(t, dir)
	want := func(p *processtest.Process, method, path, body string, status int, text string) {
		t.Helper()
		got, answer, err := p.Do(context.Background(), method, path, body)
		if err != nil || got != status {
			t.Errorf("%s %s: %d %s, %v, want %d", method, path, got, answer, err, status)
			return
		}
		processtest.MustContain(t, answer, text)
	}
	want(p, http.MethodPut, "/api/v1/filters/more", `{"kind": "exact"}`, 507, "insufficient_storage")
	want(p, http.MethodPut, "/api/v1/filters/more", `{"kind": "bloom", "capacity": 10000, "error_rate": 0.001}`, 507, "insufficient_storage")
	want(p, http.MethodPost, "/api/v1/filters/ip/clear?confirm=ip", "", 200, `"generation":2`)
	want(p, http.MethodPost, "/api/v1/check", `{"filter_typeid": "ip", "uri_list": ["a", "b"]}`, 200, "[true,true]")
	want(p, http.MethodPost, "/api/v1/check", `{"filter_typeid": "uri", "uri_list": ["a", "b"]}`, 200, "[false,false]")
	want(p, http.MethodDelete, "/api/v1/filters/old?confirm=old", "", 204, "")
	_ = p.End(syscall.SIGTERM) // removes the room that journals have made ahead

	unfill()
	unfill = fill(t, dir)
	p = processtest.Begin(t, dir, []string{"URIFILTER_FILTERS=[" + filters + ", {id: 4, name: late, kind: exact}]"})
	processtest.AwaitLive(t, p)
	want(p, http.MethodPost, "/api/v1/check", `{"filter_typeid": "uri", "uri_list": ["a", "c"]}`, 200, "[false,true]")
	want(p, http.MethodPost, "/api/v1/filter", `{"filter_typeid": "late", "uri_list": ["a"]}`, 507, "insufficient_storage")
	want(p, http.MethodGet, "/readyz", "", 503, "")
	unfill()
	p.AwaitReady()
	p.MustPost("/api/v1/filter", `{"filter_typeid": "late", "uri_list": ["a"]}`, 200)
	p.MustPost("/api/v1/filter", `{"filter_typeid": 3, "uri_list": ["a"]}`, 200)
}
