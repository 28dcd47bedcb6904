package release

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// cleanup bounds the removal of what a failed upload has left.
const cleanup = 3 * time.Second

// Deployment installs one program on one host. Its steps share state, so they belong to
// one run, in this order: Upload, Current, and after the health check Healthy and Prune.
type Deployment struct {
	Folder Folder
	// Binary returns the program for the host.
	Binary func(ctx context.Context, h host.Host) (Binary, error)
	At     time.Time // of the run
	By     string    // who does it, user@machine
	Keep   int       // how many releases stay

	id string // what shall be current; known once Upload has looked
}

// ID is the release that is to become current, "" before Upload has run.
func (d *Deployment) ID() string { return d.id }

// Upload is the step that uploads the program. If a release on the host already has the
// same content, undamaged, that is used instead: a commit or a file that does not go into the
// program makes no new release of it.
func (d *Deployment) Upload() step.Wish {
	return uploading{"release: upload", d}
}

// uploading is that step.
type uploading struct {
	step.Named
	*Deployment
}

// Quiet implements step.Quiet.
func (d uploading) Quiet() step.Wish {
	return step.NewWish(d.Title(), func(ctx context.Context, h host.Host) (*step.Change, error) {
		_, _, err := d.choose(ctx, h)
		return nil, err
	})
}

func (d uploading) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	id, binary, err := d.choose(ctx, h)
	d.id = id
	if err != nil || binary == nil {
		return nil, err
	}
	list, err := d.Folder.List(ctx, h)
	if err != nil {
		return nil, err
	}
	return &step.Change{
		Summary: fmt.Sprintf("upload release %s, %s", id, megabytes(binary.Size)),
		Apply:   func(ctx context.Context) error { return d.upload(ctx, h, *binary, later(d.At, list.newest())) },
	}, nil
}

// choose returns the id of the release to use, and the program to upload under it; nil: it is there.
func (d *Deployment) choose(ctx context.Context, h host.Host) (string, *Binary, error) {
	binary, err := d.Binary(ctx, h)
	if err != nil {
		return "", nil, err
	}
	list, err := d.Folder.List(ctx, h)
	if err != nil {
		return "", nil, err
	}
	id, err := d.uploaded(ctx, h, list, binary)
	if err != nil || id != "" {
		return id, nil, err
	}
	if id = binary.ID(); list.has(id) {
		id = NewID(d.At, binary.Content)
	}
	return id, &binary, nil
}

// UploadFirst is Upload for a host without a current release; others keep theirs.
func (d *Deployment) UploadFirst() step.Wish {
	upload := d.Upload()
	return step.NewWish(upload.Title(), func(ctx context.Context, h host.Host) (*step.Change, error) {
		list, err := d.Folder.List(ctx, h)
		if err != nil {
			return nil, err
		}
		if _, ok := list.Find(list.Current); ok {
			d.id = list.Current
			return nil, nil
		}
		return upload.Look(ctx, h)
	})
}

// uploaded returns the id of a release on the host that has the program, preferably the
// current one; "" if there is none.
func (d *Deployment) uploaded(ctx context.Context, h host.Host, list Listing, binary Binary) (string, error) {
	candidates := slices.DeleteFunc(slices.Clone(list.Releases), func(m Manifest) bool {
		return m.content() != binary.Content && m.SHA256 != binary.SHA256
	})
	slices.SortStableFunc(candidates, func(a, b Manifest) int {
		switch {
		case a.ID == list.Current:
			return -1
		case b.ID == list.Current:
			return 1
		}
		return 0
	})
	for _, m := range candidates {
		sum, err := d.Folder.digest(ctx, h, m.ID)
		if err != nil {
			return "", err
		}
		if sum == m.SHA256 {
			return m.ID, nil
		}
		step.Warn(ctx, "release %s: its program has been changed since it was put there; it is uploaded again", m.ID)
	}
	return "", nil
}

func (d *Deployment) upload(ctx context.Context, h host.Host, binary Binary, created time.Time) (err error) {
	f := d.Folder
	staged := f.staged(d.id)
	// Other stages are what broken-off runs left: the lock of the host keeps it to one run.
	prepare := fmt.Sprintf("umask 022 && mkdir -p %s && rm -rf %[1]s/.staged-* && mkdir %s", host.Quote(f.releases()), host.Quote(staged))
	if err := host.AsRoot(ctx, h, prepare); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
			defer cancel()
			_, _ = h.Run(ctx, host.Command{Root: true, Script: "rm -rf " + host.Quote(staged)}) // err is told; the next run removes what this cannot
		}
	}()
	file, err := os.Open(binary.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	err = h.Upload(ctx, host.Upload{Source: file, Size: binary.Size, SHA256: binary.SHA256, Path: staged + "/" + f.name, Mode: 0o755})
	if err != nil {
		return err
	}
	version, err := runVersion(ctx, h, staged+"/"+f.name, f.name, binary)
	if err != nil {
		return err
	}
	m := Manifest{ID: d.id, SHA256: binary.SHA256, Content: binary.Content, Arch: binary.Arch, Version: version, Commit: binary.Commit, By: d.By, Created: created.UTC().Truncate(time.Second)}
	if err := f.writeManifest(ctx, h, staged, m); err != nil {
		return err
	}
	// The rename makes it a release, once all of it is on the disk.
	done := fmt.Sprintf("sync -f %s/%s && rm -rf %s && mv -T %[1]s %[3]s && sync %s",
		host.Quote(staged), f.name, host.Quote(f.dir(d.id)), host.Quote(f.releases()))
	return host.AsRoot(ctx, h, done)
}

// runVersion runs the uploaded program's version command: it must run on that host, and be ours.
func runVersion(ctx context.Context, h host.Host, path, name string, binary Binary) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := h.Run(ctx, host.Command{Root: true, Script: host.Quote(path) + " version"})
	if err != nil {
		return "", fmt.Errorf("%s does not run on the host: %w\nhint: build it for linux/%s without cgo, as `go tool mage build` does", binary.Path, err, binary.Arch)
	}
	line, _, _ := strings.Cut(out.Stdout, "\n")
	if !strings.HasPrefix(line, name+" ") {
		return "", fmt.Errorf("%s is not %s: its version command prints %q", binary.Path, name, line)
	}
	return line, nil
}

// Current is the step that makes the release the current one. A running daemon keeps its
// old program until it is restarted.
func (d *Deployment) Current() step.Undoer {
	return d.Folder.Pointing(d.ID)
}

// Pointing is the step that makes a release on the host the current one. An earlier step
// may determine its id.
func (f Folder) Pointing(id func() string) step.Undoer {
	return step.NewUndoer("release: current", func(ctx context.Context, h host.Host) (*step.Change, step.Undo, error) {
		list, err := f.List(ctx, h)
		if err != nil || list.Current == id() {
			return nil, nil, err
		}
		summary, undone := "make "+id()+" current", "no release is current, as before"
		if list.Current != "" {
			summary += " in place of " + list.Current
			undone = "release " + list.Current + " is current again"
		}
		if made(id()) < made(list.Current) { // of another checkout, perhaps by mistake
			summary += ", which is newer"
		}
		change := &step.Change{Summary: summary, Apply: func(ctx context.Context) error { return f.Point(ctx, h, id()) }}
		return change, func(ctx context.Context, h host.Host) (string, error) {
			return undone, f.Point(ctx, h, list.Current)
		}, nil
	})
}

// Healthy is the step that notes that the release has passed the health check, and is the last that
// has. It follows that check; rollbacks go back to such releases.
func (d *Deployment) Healthy() step.Wish {
	return d.Folder.markHealthy(func(Listing) string { return d.id })
}

// Healthy is that step for whatever release is current.
func (f Folder) Healthy() step.Wish {
	return f.markHealthy(func(l Listing) string { return l.Current })
}

func (f Folder) markHealthy(id func(Listing) string) step.Wish {
	return step.NewWish("release: mark healthy", func(ctx context.Context, h host.Host) (*step.Change, error) {
		list, err := f.List(ctx, h)
		if err != nil {
			return nil, err
		}
		want := id(list)
		last := list.lastHealthy(want)
		if m, ok := list.Find(want); ok && m.Healthy != nil && !last.After(*m.Healthy) {
			return nil, nil
		}
		return &step.Change{
			Summary: "mark " + want + " healthy",
			Apply:   func(ctx context.Context) error { return f.MarkHealthy(ctx, h, want, later(time.Now(), last)) },
		}, nil
	})
}

// later returns the time for what is noted of a release now, later than the last that is noted of the others: the
// times are in whole seconds, and the clock of another operator's machine may be ahead.
func later(now, last time.Time) time.Time {
	if after := last.Add(time.Second); after.After(now) {
		return after
	}
	return now
}

// Unhealthy is the step that removes the mark from the current release when it crashes, so
// that no rollback goes back to it. crashed asks the host.
func (f Folder) Unhealthy(crashed func(ctx context.Context, h host.Host) (bool, error)) step.Wish {
	return step.NewWish("release: still healthy", func(ctx context.Context, h host.Host) (*step.Change, error) {
		list, err := f.List(ctx, h)
		if err != nil {
			return nil, err
		}
		if m, ok := list.Find(list.Current); !ok || m.Healthy == nil {
			return nil, nil
		}
		if yes, err := crashed(ctx, h); err != nil || !yes {
			return nil, err
		}
		return &step.Change{
			Summary: "mark " + list.Current + " as not healthy: its daemon crashes",
			Apply:   func(ctx context.Context) error { return f.mark(ctx, h, list.Current, nil) },
		}, nil
	})
}

// Prune is the step that removes the oldest releases. It never removes the current one,
// nor the one that a rollback would take.
func (d *Deployment) Prune() step.Wish {
	return step.NewWish("release: old ones", func(ctx context.Context, h host.Host) (*step.Change, error) {
		list, err := d.Folder.List(ctx, h)
		if err != nil {
			return nil, err
		}
		old := superfluous(list, d.id, d.Keep)
		if len(old) == 0 {
			return nil, nil
		}
		return &step.Change{Summary: "remove " + strings.Join(old, ", "), Apply: func(ctx context.Context) error {
			script := "cd " + host.Quote(d.Folder.releases()) + " && rm -rf -- " + strings.Join(old, " ")
			return host.AsRoot(ctx, h, script)
		}}, nil
	})
}

// alwaysKept is how many healthy releases besides the deployed one stay, however small the
// configured number: the deployed one may turn out bad, and so may the one before it.
const alwaysKept = 2

// superfluous returns the releases to remove once id is current; a plan asks before it
// is. Releases that never were healthy do not displace healthy ones: keep counts the
// healthy ones, and of the others only the newest stays, for inspection.
func superfluous(list Listing, id string, keep int) []string {
	healthy := slices.DeleteFunc(slices.Clone(list.Releases), func(m Manifest) bool { return m.Healthy == nil || m.ID == id })
	slices.SortStableFunc(healthy, func(a, b Manifest) int { return b.Healthy.Compare(*a.Healthy) })
	stay := map[string]bool{id: true}
	for _, m := range healthy[:min(len(healthy), max(keep-1, alwaysKept))] {
		stay[m.ID] = true
	}
	var old []string
	broken := 0
	for _, m := range list.Releases { // the newest first
		if m.Healthy == nil && m.ID != id {
			if broken++; broken == 1 {
				continue
			}
		}
		if !stay[m.ID] {
			old = append(old, m.ID)
		}
	}
	return old
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
