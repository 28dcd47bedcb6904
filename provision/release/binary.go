package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Binary is a program on this machine, for hosts of one architecture.
type Binary struct {
	Path   string
	Arch   string // amd64 or arm64
	SHA256 string // hexadecimal
	// Content identifies what went into it, in hexadecimal: two builds of the same sources have the
	// same, whatever was stamped into them. Without a build of ours it is SHA256.
	Content string
	Size    int64
	Commit  string // "" where the program does not tell
	// Made is the time of that commit, or of the file if the commit is unknown.
	Made time.Time
}

// ID names the release of the program. It is the same for all hosts and all runs that
// deploy it, including resumed ones.
func (b Binary) ID() string { return NewID(b.Made, b.Content) }

// architectures are those that {arch} in the path of a prebuilt program stands for.
var architectures = []string{"amd64", "arm64"}

// Paths returns the files that a prebuilt program may be, in the order of architectures.
func Paths(path string) []string {
	var all []string
	for _, arch := range architectures {
		all = append(all, strings.ReplaceAll(path, "{arch}", arch))
	}
	return all
}

// Check checks a prebuilt program, with {arch} in its path for the architecture: at least
// one must be a program for Linux.
func Check(path string) error {
	var first error
	for i, name := range Paths(path) {
		file, err := os.Open(name)
		if err == nil {
			err = checkELF(file, architectures[i])
			_ = file.Close() // it was read only
			if err != nil {
				err = fmt.Errorf("%s: %w", file.Name(), err)
			}
		}
		if err == nil {
			return nil
		}
		if first == nil || errors.Is(first, os.ErrNotExist) {
			first = err
		}
	}
	if errors.Is(first, os.ErrNotExist) {
		return fmt.Errorf("%w\nhint: -binary, or release.binary of the inventory, names an existing program; without either it is built", first)
	}
	return first
}

// OpenBinary opens a program and checks that it is for Linux on the architecture.
func OpenBinary(path, arch string) (Binary, error) {
	file, err := os.Open(path)
	if err != nil {
		return Binary{}, err
	}
	defer file.Close()
	if err := checkELF(file, arch); err != nil {
		return Binary{}, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.New()
	size, err := io.Copy(sum, io.NewSectionReader(file, 0, 1<<62))
	if err != nil {
		return Binary{}, fmt.Errorf("%s: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return Binary{}, err
	}
	b := Binary{Path: path, Arch: arch, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: size, Made: info.ModTime()}
	b.Content = b.SHA256
	if info, err := buildinfo.Read(file); err == nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
					b.Made = at
				}
			}
		}
	}
	return b, nil
}

func checkELF(file io.ReaderAt, arch string) error {
	program, err := elf.NewFile(file)
	if err != nil {
		start := make([]byte, len(elf.ELFMAG))
		if _, unread := file.ReadAt(start, 0); unread == nil && string(start) == elf.ELFMAG {
			return fmt.Errorf("it is damaged or cut off: %w\nhint: copy or build it again", err)
		}
		return errors.New("it is not a program for Linux\nhint: build one with GOOS=linux GOARCH=" + arch + " CGO_ENABLED=0, or leave -binary out")
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	machine, known := want[arch]
	switch {
	case !known:
		return fmt.Errorf("architecture %s: want amd64 or arm64", arch)
	case program.Machine != machine:
		return fmt.Errorf("it is for %s, and the host is %s\nhint: give one program for each architecture: -binary=PATH-{arch}", archOf(program.Machine), arch)
	case program.Type != elf.ET_EXEC && program.Type != elf.ET_DYN:
		return errors.New("it is an object file, not a program")
	}
	return nil
}

func archOf(machine elf.Machine) string {
	switch machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return machine.String()
}

// Built is a program in a file here.
type Built struct {
	Path    string
	Content string // as that of a Binary; "": its SHA-256
}

// Source returns a program for an architecture. It may build it.
type Source func(ctx context.Context, arch string) (Built, error)

// Ready is a source of prebuilt programs: {arch} in path stands for the architecture.
func Ready(path string) Source {
	return func(_ context.Context, arch string) (Built, error) {
		return Built{Path: strings.ReplaceAll(path, "{arch}", arch)}, nil
	}
}

// Binaries calls a source once for each architecture, however many hosts need it. It is
// safe for concurrent use.
type Binaries struct {
	source Source

	mu   sync.Mutex
	have map[string]*obtained
}

// obtained is what a source has given, once it is known.
type obtained struct {
	mu     sync.Mutex // held while the source is called
	known  bool
	binary Binary
	err    error
}

// NewBinaries returns Binaries that call source.
func NewBinaries(source Source) *Binaries {
	return &Binaries{source: source, have: map[string]*obtained{}}
}

// For returns the program for an architecture.
func (b *Binaries) For(ctx context.Context, arch string) (Binary, error) {
	b.mu.Lock()
	o := b.have[arch]
	if o == nil {
		o = &obtained{}
		b.have[arch] = o
	}
	b.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known {
		return o.binary, o.err
	}
	built, err := b.source(ctx, arch)
	if err == nil {
		o.binary, err = OpenBinary(built.Path, arch)
	}
	o.binary.Content = cmp.Or(built.Content, o.binary.Content)
	o.err = err
	o.known = err == nil || ctx.Err() == nil // the end of the work on one host is no fault of the program
	return o.binary, err
}
