package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// machine is this machine as a host: commands are run by its own sh, as the test's user.
type machine struct{ uploads atomic.Int32 }

// program is the name of the program that the tests deploy.
const program = "urifilter"

func (*machine) Name() string { return "here" }

func (*machine) Run(ctx context.Context, c host.Command) (host.Output, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Script)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &stdout, &stderr
	err := cmd.Run()
	out := host.Output{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && !slices.Contains(c.OK, out.Code) {
		return out, &host.CommandError{Host: "here", Script: c.Script, Output: out}
	}
	return out, err
}

func (m *machine) Upload(_ context.Context, u host.Upload) error {
	m.uploads.Add(1)
	// A process that another test forks meanwhile would have the file open for writing until it
	// executes its own program, and a file that is open for writing cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(u.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, u.Mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(u.Source, 0, u.Size))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	data, err := os.ReadFile(u.Path)
	if err == nil && u.SHA256 != "" && fmt.Sprintf("%x", sha256.Sum256(data)) != u.SHA256 {
		err = errors.New("it has changed since it was checked")
	}
	return err
}

// deployment returns the deployment of a program whose version output is text.
func deployment(t *testing.T, f Folder, text string, at time.Time) *Deployment {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	script := "#!/bin/sh\necho " + host.Quote(text) + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return deploymentOf(t, f, path, sha(t, path), at)
}

// deploymentOf returns the deployment of a program here that has a content.
func deploymentOf(t *testing.T, f Folder, path, content string, at time.Time) *Deployment {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha(t, path)
	return &Deployment{
		Folder: f, At: at, By: "somebody@laptop", Keep: 3,
		Binary: func(context.Context, host.Host) (Binary, error) {
			return Binary{Path: path, Arch: "amd64", SHA256: sum, Content: content, Size: info.Size()}, nil
		},
	}
}

func sha(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out[:64])
}

// apply applies steps as a fleet does, and returns the summaries of what they changed.
func apply(t *testing.T, h host.Host, steps ...step.Step) []string {
	t.Helper()
	var done []string
	for _, s := range steps {
		s := s.(step.Wish)
		change, err := s.Look(t.Context(), h)
		if err != nil {
			t.Fatalf("%s: look: %v", s.Title(), err)
		}
		if change == nil {
			continue
		}
		if err := change.Apply(t.Context()); err != nil {
			t.Fatalf("%s: apply: %v", s.Title(), err)
		}
		if left, err := s.Look(t.Context(), h); err != nil || left != nil {
			t.Fatalf("%s: after apply: %+v, %v", s.Title(), left, err)
		}
		done = append(done, change.Summary)
	}
	return done
}

func all(d *Deployment) []step.Step {
	return []step.Step{d.Upload(), d.Current(), d.Healthy(), d.Prune()}
}

func onUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the commands are those of Linux hosts")
	}
}

func TestDeploymentsSideBySide(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	start := time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)
	var ids []string
	for i := range 5 {
		d := deployment(t, f, fmt.Sprintf("urifilter v0.%d.0", i), start.Add(time.Duration(i)*time.Hour))
		if done := apply(t, h, all(d)...); len(done) < 3 {
			t.Fatalf("deployment %d changed only %q", i, done)
		}
		ids = append(ids, d.ID())
		again := deployment(t, f, fmt.Sprintf("urifilter v0.%d.0", i), start.Add(time.Duration(i)*time.Hour+time.Minute))
		if done := apply(t, h, all(again)...); len(done) != 0 {
			t.Fatalf("the second deployment %d changed %q", i, done)
		}
	}
	list, err := f.List(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if list.Current != ids[4] || len(list.Releases) != 3 || list.Releases[0].ID != ids[4] || list.Releases[2].ID != ids[2] {
		t.Fatalf("after five deployments: %+v", list)
	}
	if m := list.Releases[0]; m.Version != "urifilter v0.4.0" || m.By != "somebody@laptop" || m.Healthy == nil {
		t.Errorf("manifest: %+v", m)
	}
	if text, err := exec.Command(f.Program()).Output(); err != nil || string(text) != "urifilter v0.4.0\n" {
		t.Errorf("the current program says %q, %v", text, err)
	}
	if n := h.uploads.Load(); n != 5 {
		t.Errorf("%d uploads, want 5", n)
	}

	// An old program that is still on the host is not uploaded again.
	back := deployment(t, f, "urifilter v0.3.0", start.Add(9*time.Hour))
	if done := apply(t, h, all(back)...); h.uploads.Load() != 5 || back.ID() != ids[3] {
		t.Errorf("deploying what is there changed %q, id %s", done, back.ID())
	}
	// Unless its file has changed.
	path := f.ProgramOf(ids[3])
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	back = deployment(t, f, "urifilter v0.3.0", start.Add(10*time.Hour))
	apply(t, h, all(back)...)
	if back.ID() == ids[3] || sha(t, f.Program()) != sha(t, f.ProgramOf(back.ID())) {
		t.Error("a damaged release was taken for whole")
	}
}

// What is stamped into a program makes no release of it: one of the same content stays current.
func TestAnotherStampIsNoOtherRelease(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	built := func(stamp, content string, at time.Time) *Deployment {
		path := filepath.Join(t.TempDir(), program)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho urifilter v1 "+stamp+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return deploymentOf(t, f, path, strings.Repeat(content, 64), at)
	}
	first := built("of Monday", "a", time.Unix(1e9, 0))
	apply(t, h, all(first)...)
	if !strings.HasSuffix(first.ID(), "-aaaaaaaaaaaa") {
		t.Errorf("the id %s does not name the content", first.ID())
	}
	second := built("of Tuesday, modified", "a", time.Unix(2e9, 0))
	if done := apply(t, h, all(second)...); len(done) != 0 || second.ID() != first.ID() {
		t.Errorf("another stamp changed %q, %s in place of %s", done, second.ID(), first.ID())
	}
	third := built("of Tuesday, modified", "b", time.Unix(2e9, 0))
	if done := apply(t, h, all(third)...); len(done) < 3 || third.ID() == first.ID() {
		t.Errorf("another content changed %q, %s after %s", done, third.ID(), first.ID())
	}
	// A release of an earlier version has no content in its manifest: its bytes are it.
	list, err := f.List(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := list.Find(third.ID())
	m.Content = ""
	if err := f.writeManifest(t.Context(), h, f.dir(m.ID), m); err != nil {
		t.Fatal(err)
	}
	if done := apply(t, h, all(built("of Tuesday, modified", "b", time.Unix(2e9, 0)))...); len(done) != 0 {
		t.Errorf("a release without a content: %q", done)
	}
}

func TestUploadOfWhatIsNoUrifilterLeavesNothing(t *testing.T) {
	t.Parallel()
	onUnix(t)
	root := t.TempDir()
	f := At(root, program)
	d := deployment(t, f, "busybox v1", time.Now())
	change, err := d.Upload().Look(t.Context(), &machine{})
	if err != nil || change == nil {
		t.Fatal(change, err)
	}
	if err := change.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "not urifilter") {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, "releases")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Another run builds the program again, for itself, while this one is at work.
func TestUploadOfAnotherBuild(t *testing.T) {
	t.Parallel()
	onUnix(t)
	root := t.TempDir()
	d := deployment(t, At(root, program), "urifilter v1", time.Now())
	h := &machine{}
	change, err := d.Upload().Look(t.Context(), h)
	if err != nil || change == nil {
		t.Fatal(change, err)
	}
	b, err := d.Binary(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.Path, []byte("#!/bin/sh\necho 'urifilter v2'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := change.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "changed since it was checked") {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, "releases")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCurrentIsUndone(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	first := deployment(t, f, "urifilter v1", time.Unix(1e9, 0))
	upload, current := first.Upload(), first.Current()
	apply(t, h, upload, current)
	if _, err := current.Undo(t.Context(), h, errors.New("x")); err != nil {
		t.Fatal(err)
	}
	if list, _ := f.List(t.Context(), h); list.Current != "" || len(list.Releases) != 1 {
		t.Errorf("after the undo of the first: %+v", list)
	}
	apply(t, h, all(first)...)
	second := deployment(t, f, "urifilter v2", time.Unix(2e9, 0))
	current = second.Current()
	apply(t, h, second.Upload(), current)
	if list, _ := f.List(t.Context(), h); list.Current != second.ID() {
		t.Fatalf("current: %s", list.Current)
	}
	said, err := current.Undo(t.Context(), h, errors.New("x"))
	if list, _ := f.List(t.Context(), h); err != nil || list.Current != first.ID() || !strings.Contains(said, first.ID()) {
		t.Errorf("after the undo: %s, %q, %v", list.Current, said, err)
	}
}

// Whoever deploys an older checkout sees that this goes back.
func TestAnOlderReleaseIsToldOf(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	of := func(version string, made int64) *Deployment {
		d := deployment(t, f, version, time.Unix(3e9, 0))
		binary := d.Binary
		d.Binary = func(ctx context.Context, h host.Host) (Binary, error) {
			b, err := binary(ctx, h)
			b.Made = time.Unix(made, 0)
			return b, err
		}
		return d
	}
	older, newer, same := of("urifilter v1", 1e9), of("urifilter v2", 2e9), of("urifilter v3", 2e9)
	for _, c := range []struct {
		to, is   *Deployment
		goesBack bool
	}{{older, nil, false}, {newer, older, false}, {same, newer, false}, {older, same, true}} {
		done := apply(t, h, c.to.Upload(), c.to.Current())
		want := "make " + c.to.ID() + " current"
		if c.is != nil {
			want += " in place of " + c.is.ID()
		}
		if c.goesBack {
			want += ", which is newer"
		}
		if got := done[len(done)-1]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// cut is a machine whose connection ends in the middle of what a command reads.
type cut struct{ *machine }

func (h cut) Run(ctx context.Context, c host.Command) (host.Output, error) {
	if c.Stdin != nil {
		c.Stdin = io.LimitReader(c.Stdin, 20)
	}
	return h.machine.Run(ctx, c)
}

// A release stays one when the connection ends while its mark is written.
func TestMarkThatIsCutOff(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	d := deployment(t, f, "urifilter v1", time.Unix(1e9, 0))
	apply(t, h, d.Upload(), d.Current())
	if err := f.MarkHealthy(t.Context(), cut{h}, d.ID(), time.Now()); err == nil || !strings.Contains(err.Error(), "got 20 of ") {
		t.Errorf("error %v", err)
	}
	list, err := f.List(t.Context(), h)
	if m, there := list.Find(d.ID()); err != nil || !there || m.Healthy != nil {
		t.Errorf("%v, %+v", err, list)
	}
}
