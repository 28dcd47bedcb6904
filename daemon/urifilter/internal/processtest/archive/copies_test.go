package archive_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The tests of this file run the real binary with a real server as its archive.

// Written-back data outlives the server: with the daemon, by asking it, and without.
func TestArchiveOutlivesTheServer(t *testing.T) {
	t.Parallel()
	env := processtest.WithArchive(mongotest.Start(t))
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	p.AwaitLog("filter starts EMPTY")
	p.WantFresh(0, 1000, 1000)
	asking := append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
	out, errOut := processtest.MustCommand(t, dir, asking, "bitmap", "update")
	processtest.MustContain(t, errOut, "asking the daemon at http://"+p.Addr+": it has "+dir+" open")
	processtest.WantAbout(t, out, "uri: written, version uri-1, ", 1000)
	processtest.MustContain(t, out, "ip: written, version ip-1, ")
	if _, text, _ := p.Get("/api/v1/filters/uri"); !strings.Contains(text, `"last_writeback":"2`) {
		t.Errorf("last_writeback is not shown: %s", text)
	}
	_, metrics, _ := p.Get("/metrics")
	processtest.MustContain(t, metrics, `urifilter_last_writeback_timestamp_seconds{filter="uri"} 1.`, "urifilter_writeback_duration_seconds_count 2",
		`urifilter_writeback_failures_total{filter="uri"} 0`, "urifilter_filters_waiting 0")
	p.WantFresh(1000, 2000, 1000)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.Log)
	}
	out, errOut = processtest.MustCommand(t, dir, env, "bitmap", "update", "uri", "--json")
	processtest.MustContain(t, errOut, "opening "+dir+": no daemon has it")
	var result struct {
		Filters []struct{ Copy *client.CopyResult }
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Filters) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if c := result.Filters[0].Copy; c == nil || c.Version != "uri-2" || c.Uploaded == 0 {
		t.Errorf("got %s", out)
	} else {
		processtest.WantEstimate(t, c.ItemsEstimate, 2000, processtest.URICapacity)
	}

	// The server is lost; another one starts with nothing.
	other := t.TempDir()
	p = processtest.Start(t, other, env)
	p.AwaitLog("filter restored from the archive")
	p.WantFresh(0, 2500, 500)
	if _, text, _ := p.Get("/api/v1/filters/uri"); !strings.Contains(text, `"last_writeback":"2`) {
		t.Errorf("last_writeback is not learnt from the archive: %s", text)
	}
	// A restart needs no archive, and knows when the last writeback was.
	if err := p.End(syscall.SIGKILL); err == nil {
		t.Error("killed, but no error")
	}
	p = processtest.Start(t, other, env)
	p.AwaitLog("store and archive agree")
	p.WantFresh(0, 2500, 0)
	if _, text, _ := p.Get("/api/v1/filters/uri"); !strings.Contains(text, `"last_writeback":"2`) {
		t.Errorf("last_writeback is not learnt from the archive: %s", text)
	}
}

func TestBitmapCommandsShowTheArchive(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{})
	env := processtest.WithArchive(server.URI())
	dir := filepath.Join(t.TempDir(), "data")
	if code, _, errOut := processtest.Command(t, dir, env, "bitmap", "update"); code != 1 || !strings.Contains(errOut, dir) || !strings.Contains(errOut, "hint: name the data directory") {
		t.Errorf("no data directory: %d, %s", code, errOut)
	}
	out, _ := processtest.MustCommand(t, dir, env, "bitmap", "init")
	processtest.MustContain(t, out, "uri: created, version uri-1, about 0 items", "ip: created, version ip-1")
	out, _ = processtest.MustCommand(t, dir, env, "bitmap", "init")
	if out != "uri: unchanged\nip: unchanged\n" {
		t.Errorf("init again: %q", out)
	}
	out, _ = processtest.MustCommand(t, t.TempDir(), env, "bitmap", "init", "ip")
	processtest.MustContain(t, out, "ip: restored")
	p := processtest.Start(t, dir, env)
	asking := append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
	p.WantFresh(0, 100, 100)
	processtest.MustCommand(t, dir, asking, "bitmap", "update", "1") // by its id

	type version struct {
		Version       string
		ItemsEstimate uint64 `json:"items_estimate"`
	}
	var list struct{ Versions []version }
	out, _ = processtest.MustCommand(t, dir, env, "bitmap", "list", "uri", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Versions) != 2 || list.Versions[0].Version != "uri-2" || list.Versions[0].ItemsEstimate != 100 {
		t.Errorf("list: %v: %s", err, out)
	}
	out, _ = processtest.MustCommand(t, dir, env, "bitmap", "verify", "--all")
	processtest.MustContain(t, out, "uri-1: sound", "uri-2: sound", "ip-1: sound")
	var status struct {
		Filters []struct {
			Filter     string
			Store      *client.FilterInfo
			Archive    *version
			AgeSeconds float64 `json:"age_seconds"`
			Writer     string
		}
	}
	out, _ = processtest.MustCommand(t, dir, asking, "bitmap", "status", "--json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Filters) != 2 {
		t.Fatalf("status: %v: %s", err, out)
	}
	if s := status.Filters[1]; s.Filter != "uri" || s.Store == nil || s.Store.ItemsEstimate != 100 || s.Archive == nil || s.Archive.Version != "uri-2" || s.AgeSeconds <= 0 || s.Writer != "" {
		t.Errorf("status: %s", out)
	}
	out, _ = processtest.MustCommand(t, dir, asking, "bitmap", "status")
	processtest.MustContain(t, out, "FILTER  STORE")
	if line := regexp.MustCompile(`(?m)^uri +there +100  uri-2 +100  (less than a minute|\d+ minutes?)$`); !line.MatchString(strings.ReplaceAll(out, "  \n", "\n")) {
		t.Errorf("status: want %s in:\n%s", line, out)
	}
	// Restoring an older version takes nothing away.
	out, _ = processtest.MustCommand(t, dir, asking, "bitmap", "restore", "uri", "--version", "uri-1")
	processtest.MustContain(t, out, "uri: restored, version uri-1, about 0 items")
	p.WantFresh(0, 100, 0)

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
		code, _, errOut := processtest.Command(t, dir, asking, append([]string{"bitmap"}, test.args...)...)
		if code != test.code {
			t.Errorf("%q: exit code %d, want %d", test.args, code, test.code)
		}
		processtest.MustContain(t, errOut, test.want...)
	}
	code, _, errOut := processtest.Command(t, dir, asking[:1], "bitmap", "list")
	if code != 1 || !strings.Contains(errOut, "mongodb.uri: none is set\nhint:") {
		t.Errorf("no archive: %d, %s", code, errOut)
	}
	server.Kill()
	quick := append(asking, "URIFILTER_MONGODB_URI="+server.URI()+"?serverSelectionTimeoutMS=500")
	code, out, errOut = processtest.Command(t, dir, quick, "bitmap", "status")
	if code != 1 || !strings.Contains(errOut, server.Addr()) {
		t.Errorf("archive is gone: %d, %s", code, errOut)
	}
	processtest.MustContain(t, out, "uri     there    100  unknown")
}
