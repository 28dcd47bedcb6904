package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/mongotest"
)

// The tests of this file run the real binary with a real server as its archive.

// archived is the environment of a daemon, or a command, with an archive. The bit-map of
// uri has several stripes.
func archived(uri string) []string {
	return []string{"URIFILTER_MONGODB_URI=" + uri, fmt.Sprintf("URIFILTER_FILTERS=[{id: 1, name: uri, capacity: %d}, {id: 2, name: ip, capacity: 1000}]", uriCapacity)}
}

// command runs the binary with dir as its data directory and returns what it printed.
func commandLine(t testing.TB, dir string, env []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env = append(append(os.Environ(), "URIFILTER_DATA_DIR="+dir), env...)
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

func mustCommand(t testing.TB, dir string, env []string, args ...string) (out, errOut string) {
	t.Helper()
	code, out, errOut := commandLine(t, dir, env, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, out, errOut)
	}
	return out, errOut
}

// fresh posts numbered items of the filter uri and returns how many were new.
func (p *process) fresh(from, to int) int {
	p.t.Helper()
	items := make([]any, 0, to-from)
	for n := from; n < to; n++ {
		items = append(items, fmt.Sprintf("https://example.com/%d", n))
	}
	var got client.FilterResult[string]
	if err := json.Unmarshal([]byte(p.mustPost("/api/v1/filter", list(p.t, items...), 200)), &got); err != nil {
		p.t.Fatal(err)
	}
	return len(got.URIList)
}

func (p *process) wantFresh(from, to, want int) {
	p.t.Helper()
	// So far below its capacity the filter takes no new item for seen.
	if got := p.fresh(from, to); got != want {
		p.t.Fatalf("items %d to %d: %d new, want %d\n%s", from, to, got, want, p.log)
	}
}

func (p *process) waitReady(within time.Duration) {
	p.t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if status, _, err := p.get("/readyz"); err == nil && status == http.StatusOK {
			return
		}
	}
	p.t.Fatalf("not ready within %s\n%s", within, p.log)
}

func (p *process) waitLog(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(p.log.String(), text) {
			return
		}
	}
	p.t.Fatalf("never logged %q\n%s", text, p.log)
}

// What was written back outlives the server: with the daemon, by asking it, and without.
func TestArchiveOutlivesTheServer(t *testing.T) {
	t.Parallel()
	env := archived(mongotest.Start(t))
	dir := t.TempDir()
	p := start(t, dir, env)
	p.waitLog("filter starts EMPTY")
	p.wantFresh(0, 1000, 1000)
	asking := append([]string{"URIFILTER_LISTEN=" + p.addr}, env...)
	out, errOut := mustCommand(t, dir, asking, "bitmap", "update")
	mustContain(t, errOut, "asking the daemon at http://"+p.addr+": it has "+dir+" open")
	wantAbout(t, out, "uri: written, version uri-1, ", 1000)
	mustContain(t, out, "ip: written, version ip-1, ")
	if _, text, _ := p.get("/api/v1/filters/uri"); !strings.Contains(text, `"last_writeback":"2`) {
		t.Errorf("last_writeback is not shown: %s", text)
	}
	_, metrics, _ := p.get("/metrics")
	mustContain(t, metrics, `urifilter_last_writeback_timestamp_seconds{filter="uri"} 1.`, "urifilter_writeback_duration_seconds_count 2",
		`urifilter_writeback_failures_total{filter="uri"} 0`, "urifilter_filters_waiting 0")
	p.wantFresh(1000, 2000, 1000)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.log)
	}
	out, errOut = mustCommand(t, dir, env, "bitmap", "update", "uri", "--json")
	mustContain(t, errOut, "opening "+dir+": no daemon has it")
	var result struct {
		Filters []struct{ Copy *client.CopyResult }
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Filters) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if c := result.Filters[0].Copy; c == nil || c.Version != "uri-2" || c.Uploaded == 0 {
		t.Errorf("got %s", out)
	} else {
		wantEstimate(t, c.ItemsEstimate, 2000, uriCapacity)
	}

	// The server is lost; another one starts with nothing.
	other := t.TempDir()
	p = start(t, other, env)
	p.waitLog("filter restored from the archive")
	p.wantFresh(0, 2500, 500)
	if _, text, _ := p.get("/api/v1/filters/uri"); !strings.Contains(text, `"last_writeback":"2`) {
		t.Errorf("last_writeback is not learnt from the archive: %s", text)
	}
	// A restart needs no archive, and knows when the last writeback was.
	if err := p.end(syscall.SIGKILL); err == nil {
		t.Error("killed, but no error")
	}
	p = start(t, other, env)
	p.waitLog("store and archive agree")
	p.wantFresh(0, 2500, 0)
	if _, text, _ := p.get("/api/v1/filters/uri"); !strings.Contains(text, `"last_writeback":"2`) {
		t.Errorf("last_writeback is not learnt from the archive: %s", text)
	}
}

func TestBitmapCommandsShowTheArchive(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{})
	env := archived(server.URI())
	dir := filepath.Join(t.TempDir(), "data")
	if code, _, errOut := commandLine(t, dir, env, "bitmap", "update"); code != 1 || !strings.Contains(errOut, dir) || !strings.Contains(errOut, "hint: name the data directory") {
		t.Errorf("no data directory: %d, %s", code, errOut)
	}
	out, _ := mustCommand(t, dir, env, "bitmap", "init")
	mustContain(t, out, "uri: created, version uri-1, about 0 items", "ip: created, version ip-1")
	out, _ = mustCommand(t, dir, env, "bitmap", "init")
	if out != "uri: unchanged\nip: unchanged\n" {
		t.Errorf("init again: %q", out)
	}
	out, _ = mustCommand(t, t.TempDir(), env, "bitmap", "init", "ip")
	mustContain(t, out, "ip: restored")
	p := start(t, dir, env)
	asking := append([]string{"URIFILTER_LISTEN=" + p.addr}, env...)
	p.wantFresh(0, 100, 100)
	mustCommand(t, dir, asking, "bitmap", "update", "1") // by its id

	type version struct {
		Version       string
		ItemsEstimate uint64 `json:"items_estimate"`
	}
	var list struct{ Versions []version }
	out, _ = mustCommand(t, dir, env, "bitmap", "list", "uri", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Versions) != 2 || list.Versions[0].Version != "uri-2" || list.Versions[0].ItemsEstimate != 100 {
		t.Errorf("list: %v: %s", err, out)
	}
	out, _ = mustCommand(t, dir, env, "bitmap", "verify", "--all")
	mustContain(t, out, "uri-1: sound", "uri-2: sound", "ip-1: sound")
	var status struct {
		Filters []struct {
			Filter     string
			Store      *client.FilterInfo
			Archive    *version
			AgeSeconds float64 `json:"age_seconds"`
			Writer     string
		}
	}
	out, _ = mustCommand(t, dir, asking, "bitmap", "status", "--json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Filters) != 2 {
		t.Fatalf("status: %v: %s", err, out)
	}
	if s := status.Filters[1]; s.Filter != "uri" || s.Store == nil || s.Store.ItemsEstimate != 100 || s.Archive == nil || s.Archive.Version != "uri-2" || s.AgeSeconds <= 0 || s.Writer != "" {
		t.Errorf("status: %s", out)
	}
	out, _ = mustCommand(t, dir, asking, "bitmap", "status")
	mustContain(t, out, "FILTER  STORE", "uri     there    100  uri-2         100  less than a minute")
	// Restoring an older version takes nothing away.
	out, _ = mustCommand(t, dir, asking, "bitmap", "restore", "uri", "--version", "uri-1")
	mustContain(t, out, "uri: restored, version uri-1, about 0 items")
	p.wantFresh(0, 100, 0)

	for _, test := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"update", "nope"}, 1, []string{"nope", "unknown_filter", "hint: known filters: ip, uri"}},
		{[]string{"restore", "uri", "--version", "uri-9"}, 1, []string{"uri-9", "unknown_version", "hint: `urifilter bitmap list`"}},
		{[]string{"restore", "--version", "uri-1"}, 2, []string{"want one NAME"}},
		{[]string{"init", "nope"}, 1, []string{"nope: not in the settings", "known filters: uri, ip"}},
		{[]string{"list", "nope"}, 1, []string{"filter nope: no version in the archive"}},
		{[]string{"status", "nope"}, 1, []string{"filter nope: neither store nor archive has it"}},
		{[]string{"updaet"}, 2, []string{"did you mean update"}},
	} {
		code, _, errOut := commandLine(t, dir, asking, append([]string{"bitmap"}, test.args...)...)
		if code != test.code {
			t.Errorf("%q: exit code %d, want %d", test.args, code, test.code)
		}
		mustContain(t, errOut, test.want...)
	}
	code, _, errOut := commandLine(t, dir, asking[:1], "bitmap", "list")
	if code != 1 || !strings.Contains(errOut, "mongodb.uri: none is set\nhint:") {
		t.Errorf("no archive: %d, %s", code, errOut)
	}
	server.Kill()
	quick := append(asking, "URIFILTER_MONGODB_URI="+server.URI()+"?serverSelectionTimeoutMS=500")
	code, out, errOut = commandLine(t, dir, quick, "bitmap", "status")
	if code != 1 || !strings.Contains(errOut, server.Addr()) {
		t.Errorf("archive is gone: %d, %s", code, errOut)
	}
	mustContain(t, out, "uri     there    100  unknown")
}

func (p *process) send(method, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+p.addr+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return resp.StatusCode, b.String(), err
}
