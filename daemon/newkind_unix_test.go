//go:build unix

package daemon_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// A kind of filter is one package in the daemon, one file in the settings, which are also
// checked where there is no daemon, and a line in each of the two lists of kinds. The daemon
// is built with a made-up kind that has a parameter of its own. It must then support both the
// kind and the parameter in the settings, over HTTP, on disk, and in its commands.
func TestNewKindIsOnePackage(t *testing.T) {
	t.Parallel()
	bin := buildWithKind(t)
	dir := t.TempDir()
	listen := testserver.Free(t)
	settings := filepath.Join(dir, "urifilter.yaml")
	write(t, settings, fmt.Sprintf("log: {format: json}\nlisten: %s\ndata_dir: %s\nfilters: [{id: 9, name: fresh, kind: always_new}, {id: 8, name: thirds, kind: always_new, every: 3}, {id: 1, name: uri, capacity: 1000}]\n", listen, filepath.Join(dir, "data")))

	stop := serve(t, bin, settings, listen)
	c, err := client.New("http://" + listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	always := func(name string) {
		t.Helper()
		for range 2 {
			got, err := c.Filter(t.Context(), name, []string{"a", "b", "a"})
			if err != nil || !slices.Equal(got, []string{"a", "b", "a"}) {
				t.Fatalf("%s: %q, %v: want all three as new, in every call", name, got, err)
			}
		}
	}
	always("fresh")
	made, created, err := c.CreateFilter(t.Context(), "other", client.FilterSpec{Kind: "always_new"})
	if err != nil || !created || made.Kind != "always_new" {
		t.Fatalf("%+v, %v, %v", made, created, err)
	}
	always("other")
	if _, _, err := c.CreateFilter(t.Context(), "wrong", client.FilterSpec{Kind: "always_new", ErrorRate: 0.1}); err == nil ||
		!strings.Contains(err.Error(), "error_rate: is for filters of the kind bloom or scaling: it remembers nothing") {
		t.Errorf("an error rate: %v", err)
	}
	if _, _, err := c.CreateFilter(t.Context(), "wrong", client.FilterSpec{Kind: "cuckoo"}); err == nil ||
		!strings.Contains(err.Error(), "want bloom or timing or always_new or exact") {
		t.Errorf("an unknown kind: %v", err)
	}
	third := func(name string) {
		t.Helper()
		got, err := c.Filter(t.Context(), name, []string{"a", "b", "c", "a"})
		if err != nil || !slices.Equal(got, []string{"a", "b", "a"}) {
			t.Errorf("%s: %q, %v: want all but the third", name, got, err)
		}
	}
	third("thirds")
	if text := run(t, bin, "filters", "create", "more", "--kind", "always_new", "--every", "3", "--server", "http://"+listen); !strings.Contains(text, "more: created, id ") {
		t.Errorf("filters create:\n%s", text)
	}
	third("more")
	if info, err := c.GetFilter(t.Context(), "more"); err != nil || info.More["every"] != 3.0 {
		t.Errorf("%+v, %v", info, err)
	}
	if text := run(t, bin, "filters", "show", "more", "--server", "http://"+listen); !regexp.MustCompile(`(?m)^every +3$`).MatchString(text) {
		t.Errorf("filters show:\n%s", text)
	}
	if text := run(t, bin, "filters", "create", "roomy", "--kind", "always_new", "--capacity", "5k", "--server", "http://"+listen); !regexp.MustCompile(`roomy: created, id \d+, for 5,000 items, 0 B`).MatchString(text) {
		t.Errorf("filters create:\n%s", text)
	}
	if text := run(t, bin, "filters", "show", "roomy", "--server", "http://"+listen); !regexp.MustCompile(`(?m)^capacity +5,000 \(0.0 % full\)$`).MatchString(text) || strings.Contains(text, "bits set") {
		t.Errorf("filters show:\n%s", text)
	}
	if _, created, err := c.CreateFilter(t.Context(), "more", client.FilterSpec{Kind: "always_new", More: map[string]any{"every": 3}}); created || err != nil {
		t.Errorf("the same again: %v, %v", created, err)
	}
	for _, wrong := range []struct {
		name, kind, text string
		every            any
	}{
		{"more", "", "every is 3, not 4", 4},
		{"uri", "", "every: is for filters of the kind always_new: items of a bloom filter do not expire", 4},
		{"wrong", "always_new", "every: 1001: want 0 to 1000, such as 3", 1001},
		{"wrong", "always_new", "every: a text: want a whole number, such as 3", "some"},
	} {
		_, _, err := c.CreateFilter(t.Context(), wrong.name, client.FilterSpec{Kind: wrong.kind, More: map[string]any{"every": wrong.every}})
		if err == nil || !strings.Contains(err.Error(), wrong.text) {
			t.Errorf("every %v: %v, want %q", wrong.every, err, wrong.text)
		}
	}
	if text := run(t, bin, "filters", "create", "slow", "--kind", "always_new", "--pause", "1500ms", "--server", "http://"+listen); !strings.Contains(text, "slow: created, id ") {
		t.Errorf("filters create:\n%s", text)
	}
	if info, err := c.GetFilter(t.Context(), "slow"); err != nil || info.More["pause"] != 1.5 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, wrong := range []struct {
		kind, code, text string
		pause            any
	}{
		{"always_new", "invalid_filter", "pause: 1h0m1s: want 0s to 1h, such as 3", 3601},
		{"always_new", "invalid_filter", "pause: -1: want a number of seconds, such as 3", -1},
		{"always_new", "invalid_filter", "pause: 1e+300: want a number of seconds, such as 3", 1e300},
		{"always_new", "invalid_filter", "pause: 0: want a number of seconds, such as 3", 0},
		{"always_new", "wrong_type", "pause: a text: want a number of seconds, such as 3", "soon"},
		{"exact", "invalid_filter", "pause: is for filters of the kind always_new: ", 5},
	} {
		_, _, err := c.CreateFilter(t.Context(), "wrong", client.FilterSpec{Kind: wrong.kind, More: map[string]any{"pause": wrong.pause}})
		var told *client.Error
		if !errors.As(err, &told) || told.ErrorCode != wrong.code || !strings.Contains(told.Detail, wrong.text) {
			t.Errorf("pause %v: %v, want %s: %q", wrong.pause, err, wrong.code, wrong.text)
		}
	}
	if _, err := c.ClearFilter(t.Context(), "other"); err != nil {
		t.Error(err)
	}
	if text := run(t, bin, "filters", "list", "--server", "http://"+listen); !regexp.MustCompile(`fresh +always_new`).MatchString(text) ||
		!regexp.MustCompile(`roomy +always_new +0 +5,000 +0.0 % +- +- +0 B`).MatchString(text) {
		t.Errorf("filters list:\n%s", text)
	}
	stop()

	if text := run(t, bin, "verify", "--data-dir", filepath.Join(dir, "data")); !strings.Contains(text, "fresh: sound; 0 items; nothing: 1 files checked") {
		t.Errorf("verify:\n%s", text)
	}
	stop = serve(t, bin, settings, listen)
	always("fresh")
	always("other")
	third("thirds")
	third("more")
	if err := c.DropFilter(t.Context(), "other"); err != nil {
		t.Error(err)
	}
	stop()
}

// buildWithKind builds the daemon of this repository with the kind in testdata.
func buildWithKind(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	overlay := map[string]string{
		filepath.Join(root, "daemon/internal/filter/kinds/alwaysnew/alwaysnew.go"): filepath.Join(root, "daemon/testdata/alwaysnew/alwaysnew.go"),
		filepath.Join(root, "configs/kindalwaysnew.go"):                            filepath.Join(root, "daemon/testdata/alwaysnew/configs/kindalwaysnew.go"),
	}
	change := func(name string, lines ...[2]string) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		changed := string(text)
		for _, l := range lines {
			if strings.Count(changed, l[0]) != 1 {
				t.Fatalf("%s: %q is not there once: has the list another form?", name, l[0])
			}
			changed = strings.Replace(changed, l[0], l[0]+l[1], 1)
		}
		path := filepath.Join(tmp, filepath.Base(name))
		write(t, path, changed)
		overlay[filepath.Join(root, name)] = path
	}
	change("daemon/internal/filter/kinds/kinds.go",
		[2]string{"import (\n", "\t\"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/alwaysnew\"\n"},
		[2]string{"\t\ttiming.Kind(),\n", "\t\talwaysnew.Kind(),\n"})
	change("configs/kind.go",
		[2]string{"\ttimingKind,\n", "\talwaysNewKind,\n"})
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	path, bin := filepath.Join(tmp, "overlay.json"), filepath.Join(tmp, "urifilter")
	write(t, path, string(list))
	// Everything that depends on the settings is compiled. Without inlining that takes half the
	// time: much of it would be copies of what the Redis client instantiates.
	if err := testserver.Program(bin, "-overlay="+path, "-gcflags="+module+"/...=-l", "./urifilter"); err != nil {
		t.Fatal(err)
	}
	return bin
}

// serve starts the daemon and waits until it is ready; stop ends it and fails the test unless
// it exits without an error.
func serve(t *testing.T, bin, settings, listen string) (stop func()) {
	t.Helper()
	cmd := exec.Command(bin, "serve", "--config", settings)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ready := bufio.NewScanner(log), false
	var all strings.Builder
	for !ready && lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		ready = strings.Contains(lines.Text(), `"msg":"ready"`)
	}
	if !ready {
		t.Fatalf("%v\n%s", cmd.Wait(), all.String())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			all.WriteString(lines.Text() + "\n")
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() {
		t.Helper()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, all.String())
		}
	}
}

func run(t *testing.T, bin string, args ...string) string {
	t.Helper()
	out, err := exec.Command(bin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
