package release

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	at := func(hour int) *time.Time {
		x := time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)
		return &x
	}
	l := Listing{Current: "20260103T000000Z-cccccccccccc", Releases: []Manifest{
		{ID: "20260104T000000Z-dddddddddddd", SHA256: strings.Repeat("d", 64), Commit: "0123456789abcdef"},
		{ID: "20260103T000000Z-cccccccccccc", SHA256: strings.Repeat("c", 64), Healthy: at(9)},
		{ID: "20260102T000000Z-bbbbbbbbbbbb", SHA256: strings.Repeat("b", 64), Healthy: at(2)},
		{ID: "20260101T000000Z-aaaaaaaaaaaa", SHA256: strings.Repeat("a", 64), Healthy: at(3)},
	}}
	for version, want := range map[string]string{
		"":                              "20260101T000000Z-aaaaaaaaaaaa", // the last that was healthy, though it is older
		"20260104":                      "20260104T000000Z-dddddddddddd",
		"bbbbbbb":                       "20260102T000000Z-bbbbbbbbbbbb",
		"0123456":                       "20260104T000000Z-dddddddddddd",
		"20260103T000000Z-cccccccccccc": "20260103T000000Z-cccccccccccc",
	} {
		if m, err := l.Target(version); err != nil || m.ID != want {
			t.Errorf("%q: %s, %v; want %s", version, m.ID, err, want)
		}
	}
	for _, version := range []string{"2026010", "eeeeee", "../x"} {
		if m, err := l.Target(version); err == nil || !strings.Contains(err.Error(), "hint: it has 20260104") {
			t.Errorf("%q: %s, %v", version, m.ID, err)
		}
	}
	if _, err := (Listing{}).Target(""); !errors.Is(err, ErrNoPrevious) {
		t.Error(err)
	}
}

func TestSuperfluousKeepsWhatARollbackNeeds(t *testing.T) {
	t.Parallel()
	day := func(i int) time.Time { return time.Date(2026, 1, i, 0, 0, 0, 0, time.UTC) }
	id := func(i int) string { return NewID(day(i), strings.Repeat("a", 64)) }
	// Of 12 releases, newest first, the healthy ones are those of the given days.
	listing := func(healthy ...int) Listing {
		var l Listing
		for i := 12; i >= 1; i-- {
			m := Manifest{ID: id(i), Created: day(i)}
			if slices.Contains(healthy, i) {
				at := day(i)
				m.Healthy = &at
			}
			l.Releases = append(l.Releases, m)
		}
		return l
	}
	for _, c := range []struct {
		what    string
		healthy []int
		current int
		keep    int
		stay    []int
	}{
		{"all were healthy", []int{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 12, 5, []int{12, 11, 10, 9, 8}},
		{"failed ones push none out", []int{5, 4, 3, 2, 1}, 12, 5, []int{12, 11, 5, 4, 3, 2}},
		{"the last two that were healthy stay", []int{2, 1}, 12, 1, []int{12, 11, 2, 1}},
		{"an old one is current again", []int{12, 11, 10, 3}, 3, 3, []int{12, 11, 9, 3}},
		{"one to come", []int{12, 11, 10}, 13, 3, []int{12, 11, 9}},
		{"none was", nil, 12, 5, []int{12, 11}},
	} {
		old := superfluous(listing(c.healthy...), id(c.current), c.keep)
		for i := 1; i <= 12; i++ {
			if want := !slices.Contains(c.stay, i); slices.Contains(old, id(i)) != want {
				t.Errorf("%s: release of day %d: removed %v, want %v", c.what, i, !want, want)
			}
		}
	}
}

// A release has one id, in whichever run and on whichever host it is deployed.
func TestTheIDIsTheReleases(t *testing.T) {
	t.Parallel()
	onUnix(t)
	now := time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)
	a, b := At(t.TempDir(), program), At(t.TempDir(), program)
	first := deployment(t, a, "urifilter v1.0.0", now)
	apply(t, &machine{}, all(first)...)
	resumed := deployment(t, b, "urifilter v1.0.0", now.Add(time.Hour))
	resumed.Binary = first.Binary
	apply(t, &machine{}, all(resumed)...)
	if first.ID() == "" || resumed.ID() != first.ID() {
		t.Errorf("ids %q and %q, want one", first.ID(), resumed.ID())
	}
}

func TestListingLeavesOutWhatIsNoRelease(t *testing.T) {
	t.Parallel()
	onUnix(t)
	root := t.TempDir()
	f, h := At(root, program), &machine{}
	if l, err := f.List(t.Context(), h); err != nil || l.Current != "" || len(l.Releases) != 0 {
		t.Fatalf("an empty host: %+v, %v", l, err)
	}
	good := deployment(t, f, "urifilter v1", time.Unix(1e9, 0))
	apply(t, h, all(good)...)
	for name, manifest := range map[string]string{
		"20260101T000000Z-aaaaaaaaaaaa": `{"id": "202`,
		"20260102T000000Z-aaaaaaaaaaaa": `{"id": "20260101T000000Z-aaaaaaaaaaaa"}`,
		"by hand; $(id)":                `{}`,
	} {
		dir := filepath.Join(root, "releases", name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"manifest.json": manifest, program: "x"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, err := f.List(t.Context(), h)
	if err != nil || len(l.Releases) != 1 || len(l.Faults) != 2 || l.Current != good.ID() {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestOpenBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		source := filepath.Join(dir, "main.go")
		if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "p-"+arch), source)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	binaries := NewBinaries(Ready(filepath.Join(dir, "p-{arch}")))
	for _, arch := range []string{"amd64", "arm64", "amd64"} {
		if b, err := binaries.For(t.Context(), arch); err != nil || b.Arch != arch || len(b.SHA256) != 64 || b.Size == 0 {
			t.Errorf("%s: %+v, %v", arch, b, err)
		}
	}
	if _, err := OpenBinary(filepath.Join(dir, "p-amd64"), "arm64"); err == nil || !strings.Contains(err.Error(), "it is for amd64, and the host is arm64") {
		t.Error(err)
	}
	if _, err := OpenBinary(filepath.Join(dir, "main.go"), "amd64"); err == nil || !strings.Contains(err.Error(), "not a program for Linux") {
		t.Error(err)
	}
}

func TestBinariesAsksOnceAnArchitecture(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	b := NewBinaries(func(context.Context, string) (Built, error) {
		asked.Add(1)
		return Built{}, errors.New("no compiler")
	})
	done := make(chan error)
	for range 8 {
		go func() { _, err := b.For(context.Background(), "amd64"); done <- err }()
	}
	for range 8 {
		if err := <-done; err == nil || err.Error() != "no compiler" {
			t.Error(err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestShort(t *testing.T) {
	for version, want := range map[string]string{
		"urifilter v0.0.0-20261121200901-7172e587f87f (commit 7172e587f87f of 2026-11-21T20:09:01Z) go1.26.8 linux/amd64": "commit 7172e587f87f of 2026-11-21T20:09:01Z",
		"urifilter v1.2.1-0.20261121200901-7172e587f87f+dirty (commit 7172e587f87f, modified) go1.26.8 linux/amd64":       "commit 7172e587f87f, modified",
		"urifilter (devel) (commit 7172e587f87f) go1.26.8 linux/amd64":                                                    "commit 7172e587f87f",
		"urifilter v1.2.0 (commit 7172e587f87f of 2026-11-21T20:09:01Z) go1.26.8 linux/amd64":                             "v1.2.0",
		"urifilter (devel) go1.26.8 linux/arm64":                                                                          "(devel)",
		"":                                                                                                                "",
	} {
		if got := (Manifest{Version: version}).Short(); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}
