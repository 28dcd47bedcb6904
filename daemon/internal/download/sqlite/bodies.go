package sqlite

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// bodies are the files of large bodies: DIR/xx/TASK-FENCE-RANDOM, with xx the first digits of the
// task's id. A file is durable before a row names it, and is removed after the row. So a file
// without a row belongs to a call that was interrupted, or to one that is under way.
type bodies struct {
	dir string
	fs  disk.FS

	mu       sync.Mutex
	made     map[string]bool // folders that exist durably
	pending  map[string]bool // files that calls under way may yet name
	leftover map[string]bool // files that may be left over; before the first sweep, all that no call names
	swept    bool
}

// body is what take has made of the body of a result.
type body struct {
	size   int64
	sha256 []byte
	inline []byte // the body, unless it is in a file
	file   string // the name of the file under the folder, with /, or ""
}

// readBody reads a body to its end, into memory up to limit bytes, else into a file. A
// download.WholeBody is used as it is. The caller must settle the result.
func (b *bodies) readBody(ctx context.Context, task download.Task, r io.Reader, limit int) (body, error) {
	sum := sha256.New()
	if r == nil {
		return body{sha256: sum.Sum(nil)}, nil
	}
	if known, is := r.(download.WholeBody); is {
		if whole, sum, ok := known.Whole(); ok && len(whole) <= limit {
			return body{size: int64(len(whole)), inline: whole, sha256: sum[:]}, ctx.Err()
		}
	}
	r = io.TeeReader(download.UntilDone(ctx, r), sum)
	var start bytes.Buffer
	n, err := io.Copy(&start, io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return body{}, err
	}
	if n <= int64(limit) {
		return body{size: n, inline: start.Bytes(), sha256: sum.Sum(nil)}, nil
	}
	return b.takeFile(task, &start, r, sum)
}

func (b *bodies) takeFile(task download.Task, start *bytes.Buffer, rest io.Reader, sum hash.Hash) (_ body, err error) {
	if len(idBytes(task.ID)) != 16 {
		return body{}, download.ErrLeaseLost
	}
	taken := body{file: fmt.Sprintf("%s/%s-%d-%s", task.ID[:2], task.ID, task.Fence, rand.Text()[:8])}
	if err := b.begin(taken.file); err != nil {
		return body{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.settle(taken, err))
		}
	}()
	path := b.path(taken.file)
	f, err := b.fs.OpenFile("body", path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return body{}, err
	}
	if taken.size, err = io.CopyBuffer(f.Writer("body-write"), io.MultiReader(start, rest), make([]byte, 256<<10)); err == nil {
		err = f.Sync("body-sync")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return body{}, err
	}
	if err := b.fs.SyncDir("body-syncdir", filepath.Dir(path)); err != nil {
		return body{}, err
	}
	taken.sha256 = sum.Sum(nil)
	return taken, nil
}

func (b *bodies) path(file string) string { return filepath.Join(b.dir, filepath.FromSlash(file)) }

// begin makes the folder for a new file, and protects the file from sweeps.
func (b *bodies) begin(file string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made == nil {
		b.made, b.pending, b.leftover = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	if folder := file[:2]; !b.made[folder] {
		if err := b.fs.MkdirAll("body-dir", filepath.Join(b.dir, folder)); err != nil {
			return err
		}
		b.made[folder] = true
	}
	b.pending[file] = true
	return nil
}

// settle ends what take has begun. It removes the file if no row can name it.
func (b *bodies) settle(taken body, err error) error {
	if taken.file == "" {
		return nil
	}
	defer func() {
		b.mu.Lock()
		delete(b.pending, taken.file)
		b.mu.Unlock()
	}()
	if err == nil || sqlitefile.Broken(err) { // it may have been committed: the next start will know
		return nil
	}
	return b.remove(taken.file)
}

// remove removes files that no row names any more. A file that cannot be removed because
// somebody reads it, on a system that forbids that, is left for the next sweep.
func (b *bodies) remove(files ...string) error {
	for _, file := range files {
		err := b.fs.Remove("body-remove", b.path(file))
		if err == nil || errors.Is(err, os.ErrNotExist) {
			continue
		}
		b.suspect(file)
	}
	return nil
}

// suspect has the next sweep check a file.
func (b *bodies) suspect(file string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leftover == nil {
		b.leftover = map[string]bool{}
	}
	b.leftover[file] = true
}

// sweep removes files that no row names. The first sweep checks all files, later ones only those
// that could not be removed, or that a lease of another process might still name.
func (b *bodies) sweep(ctx context.Context, use func(ctx context.Context, file string) (named, leased bool, err error)) error {
	b.mu.Lock()
	all, leftover := !b.swept, b.leftover
	b.leftover = map[string]bool{}
	b.mu.Unlock()
	look := func(file string) error {
		b.mu.Lock()
		pending := b.pending[file]
		b.mu.Unlock()
		if pending { // read before looking for the row, which exists when pending ends
			return nil
		}
		named, leased, err := use(ctx, file)
		if leased && !named {
			b.suspect(file)
		}
		if err != nil || named || leased {
			return err
		}
		return b.remove(file)
	}
	for file := range leftover {
		if err := look(file); err != nil {
			for file := range leftover { // some twice: that is harmless
				b.suspect(file)
			}
			return err
		}
	}
	if !all {
		return nil
	}
	folders, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if len(folder.Name()) != 2 || !folder.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(b.dir, folder.Name()))
		if err != nil {
			return err
		}
		for _, file := range files {
			if task, _, ok := strings.Cut(file.Name(), "-"); !ok || len(idBytes(task)) != 16 {
				continue // not ours
			}
			if err := look(folder.Name() + "/" + file.Name()); err != nil {
				return err
			}
		}
	}
	b.mu.Lock()
	b.swept = true
	b.mu.Unlock()
	return nil
}
