package apt

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Sums is the file of a bundle that lists the SHA-256 of its files, in the format of sha256sum.
const Sums = "SHA256SUMS"

// Index is the file, in the folder of a platform, that lists what each .deb needs. With it a host
// is sent only the packages it lacks; without it, all.
const Index = "Packages"

// Bundle is a set of .deb files on this machine for hosts without a network: a folder, or a tar
// archive of one, with a file SHA256SUMS. Files for one platform are in a folder of that name
// (debian12-amd64); without such folders all files are for every host.
type Bundle struct {
	name  string
	debs  []deb // and other files: an index, a program
	close func() error
}

// deb is one file of a bundle.
type deb struct {
	path   string // in the bundle, with /
	sum    string // SHA-256, hexadecimal
	size   int64
	source io.ReaderAt
}

// OpenBundle opens a bundle and checks every file against SHA256SUMS; every .deb must be listed
// there. The caller must close it.
func OpenBundle(name string) (*Bundle, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	b := &Bundle{name: filepath.Base(name)}
	var sums io.Reader
	if info.IsDir() {
		sums, err = b.readFolder(name)
	} else {
		sums, err = b.readTar(name)
	}
	if err == nil {
		err = b.check(sums)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bundle %s: %w", name, err), b.Close())
	}
	return b, nil
}

// Name returns the name of the file or folder.
func (b *Bundle) Name() string { return b.name }

// Close closes its files.
func (b *Bundle) Close() error {
	if b.close == nil {
		return nil
	}
	return b.close()
}

func (b *Bundle) readFolder(dir string) (io.Reader, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	closers := []io.Closer{root}
	b.close = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == Sums {
			return err
		}
		f, err := root.Open(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		closers = append(closers, f)
		info, err := f.Stat()
		if err != nil {
			return err
		}
		b.debs = append(b.debs, deb{path: name, size: info.Size(), source: f})
		return nil
	})
	if err != nil {
		return nil, err
	}
	sums, err := root.Open(Sums)
	if err != nil {
		return nil, noSums(err)
	}
	closers = append(closers, sums)
	return sums, nil
}

func (d deb) isPackage() bool { return strings.HasSuffix(d.path, ".deb") }

func noSums(err error) error {
	return fmt.Errorf("%w\nhint: in the folder: find . -name '*.deb' -exec sha256sum {} + > %s", err, Sums)
}

// readTar finds the positions of the files in the archive, so that they are read from it.
func (b *Bundle) readTar(name string) (io.Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b.close = f.Close
	var sums io.Reader
	var folder string // of the sums
	archive := tar.NewReader(f)
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w\nhint: want a folder or a .tar that is not compressed (the .deb files are)", err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		inside := path.Clean(head.Name)
		switch {
		case head.Typeflag != tar.TypeReg:
		case path.Base(inside) == Sums && sums == nil:
			sums, folder = io.NewSectionReader(f, at, head.Size), path.Dir(inside)
		default:
			b.debs = append(b.debs, deb{path: inside, size: head.Size, source: io.NewSectionReader(f, at, head.Size)})
		}
	}
	if sums == nil {
		return nil, noSums(fmt.Errorf("open %s: %w", Sums, fs.ErrNotExist))
	}
	// A tar of the folder itself puts its name before each file's.
	for i := range b.debs {
		b.debs[i].path = strings.TrimPrefix(b.debs[i].path, folder+"/")
	}
	return sums, nil
}

var sumLine = regexp.MustCompile(`^([0-9a-fA-F]{64}) [ *](.+)$`)

// check compares every file with its sum.
func (b *Bundle) check(sums io.Reader) error {
	want := map[string]string{}
	lines := bufio.NewScanner(sums)
	for n := 1; lines.Scan(); n++ {
		m := sumLine.FindStringSubmatch(strings.TrimRight(lines.Text(), "\r"))
		if m == nil {
			if strings.TrimSpace(lines.Text()) == "" {
				continue
			}
			return fmt.Errorf("%s:%d: want lines as sha256sum writes them", Sums, n)
		}
		want[path.Clean(m[2])] = strings.ToLower(m[1])
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", Sums, err)
	}
	var faults []error
	for i := range b.debs {
		d := &b.debs[i]
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(d.source, 0, d.size)); err != nil {
			return fmt.Errorf("%s: %w", d.path, err)
		}
		d.sum = hex.EncodeToString(sum.Sum(nil))
		switch listed := want[d.path]; {
		case listed == "" && !d.isPackage():
		case listed == "":
			faults = append(faults, fmt.Errorf("%s: not in %s", d.path, Sums))
		case listed != d.sum:
			faults = append(faults, fmt.Errorf("%s: it is damaged: SHA-256 %s, want %s", d.path, d.sum, listed))
		}
		delete(want, d.path)
	}
	for name := range want {
		faults = append(faults, fmt.Errorf("%s: in %s, but not there", name, Sums))
	}
	if !slices.ContainsFunc(b.debs, deb.isPackage) {
		faults = append(faults, errors.New("it holds no .deb file"))
	}
	if len(faults) == 0 {
		return nil
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return fmt.Errorf("%w\nhint: copy it again from where it was made; go tool mage install:bundle makes one", errors.Join(faults...))
}

var platformFolder = regexp.MustCompile(`^(debian|ubuntu)[0-9.]+-[a-z0-9]+$`)

// index returns the index of the packages for a platform, "" if there is none.
func (b *Bundle) index(kind string) (string, error) {
	for _, d := range b.debs {
		if d.path == kind+"/"+Index {
			text, err := io.ReadAll(io.NewSectionReader(d.source, 0, d.size))
			return string(text), err
		}
	}
	return "", nil
}

// of returns the packages for a platform.
func (b *Bundle) of(kind string) ([]deb, error) {
	var found []deb
	var kinds []string
	for _, d := range b.debs {
		switch folder, _, _ := strings.Cut(d.path, "/"); {
		case !d.isPackage():
		case folder == kind || !platformFolder.MatchString(folder):
			found = append(found, d)
		case !slices.Contains(kinds, folder):
			kinds = append(kinds, folder)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("bundle %s: nothing is in it for %s\nhint: it has %s", b.name, kind, strings.Join(kinds, ", "))
	}
	return found, nil
}
