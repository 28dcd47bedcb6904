package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// File is a small file of a host: settings, a key, a unit.
type File struct {
	Path    string // absolute
	Content string
	Mode    fs.FileMode // permission bits; WriteFile takes 0 for 0644
	// Owner and Group are names on the host. WriteFile takes "" for root.
	Owner, Group string
}

const (
	largestFile  = 512 << 10 // bytes of a file that is read
	largestFiles = 960 << 10 // bytes of all files that are read by one command, of whose output the end of 1 MiB is kept
)

// ReadFile reads a file as root; false: it does not exist. Its content is not logged.
func ReadFile(ctx context.Context, h Host, name string) (File, bool, error) {
	files, err := ReadFiles(ctx, h, name)
	f, there := files[name]
	return f, there, err
}

// ReadFiles is ReadFile for several files by one command, to save a sudo for each. The map
// lacks files that do not exist.
func ReadFiles(ctx context.Context, h Host, names ...string) (map[string]File, error) {
	script := fmt.Sprintf(`set -- %s
for p; do
	shift
	if [ -e "$p" ]; then echo 1; set -- "$@" "$p"; else echo 0; fi
done
[ $# -gt 0 ] || exit 0
stat -Lc '%%F|%%s|%%a|%%U|%%G' -- "$@" || exit
for p; do
	shift
	[ ! -f "$p" ] || set -- "$@" "$p"
done
[ $# -eq 0 ] || cat -- "$@" | head -c %d`, Words(names...), largestFiles)
	out, err := h.Run(ctx, Command{Script: script, Root: true, Secret: true, Look: true})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", strings.Join(names, ", "), err)
	}
	return parseFiles(names, out.Stdout)
}

// parseFiles reads a line for each name, 1 or 0; one of stat for each file; and the contents of all files.
func parseFiles(names []string, text string) (map[string]File, error) {
	var there []string
	for _, name := range names {
		known, rest, _ := strings.Cut(text, "\n")
		text = rest
		switch known {
		case "1":
			there = append(there, name)
		case "0":
		default:
			return nil, fmt.Errorf("read %s: got %q, want whether it exists", name, known)
		}
	}
	files, sizes := map[string]File{}, make([]int64, len(there))
	for i, name := range there {
		head, rest, _ := strings.Cut(text, "\n")
		text = rest
		f, size, err := parseStat(head)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		f.Path = name
		files[name], sizes[i] = f, size
	}
	for i, name := range there {
		if int64(len(text)) < sizes[i] {
			return nil, fmt.Errorf("read %s: got %d of %d bytes", name, len(text), sizes[i])
		}
		f := files[name]
		f.Content, text = text[:sizes[i]], text[sizes[i]:]
		files[name] = f
	}
	if text != "" {
		return nil, fmt.Errorf("read %s: got %d bytes more than they have", strings.Join(names, ", "), len(text))
	}
	return files, nil
}

func parseStat(head string) (f File, size int64, err error) {
	fields := strings.Split(head, "|")
	if len(fields) != 5 {
		return File{}, 0, fmt.Errorf("stat wrote %q", head)
	}
	size, err = strconv.ParseInt(fields[1], 10, 64)
	mode, modeErr := strconv.ParseUint(fields[2], 8, 32)
	switch {
	case errors.Join(err, modeErr) != nil:
		return File{}, 0, fmt.Errorf("stat wrote %q", head)
	case !strings.HasPrefix(fields[0], "regular"):
		return File{}, 0, fmt.Errorf("it is a %s: want a file", fields[0])
	case size > largestFile:
		return File{}, 0, fmt.Errorf("%d bytes: want %d at most", size, largestFile)
	}
	return File{Mode: fs.FileMode(mode) & fs.ModePerm, Owner: fields[3], Group: fields[4]}, size, nil
}

// unfinished begins the names of files that WriteFile writes. Programs that read whole folders skip names that begin
// with a dot.
const unfinished = ".urifilter-write-"

// WriteFile replaces a file atomically, as root: it writes a file beside it, syncs and
// renames it. After an error the old file is unchanged. The folder must exist. The
// content goes through standard input, so it may be a secret. What a host that lost its power, or a
// process that was killed, has left in the folder is removed when nothing has been written to it for two minutes.
func WriteFile(ctx context.Context, h Host, f File) error {
	f = f.complete()
	dir, base := path.Split(f.Path)
	// The bytes are counted, because a cut connection ends the input just like its real end.
	script := fmt.Sprintf(`umask 077
find %[6]s -maxdepth 1 -name '%[7]s*' -mmin +2 -exec rm -f {} +
t=$(mktemp %[1]s) || exit
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t" || exit
got=$(($(wc -c <"$t")))
[ "$got" = %d ] || { echo "got $got of %[2]d bytes" >&2; exit 1; }
chown %s "$t" && chmod %#o "$t" && sync "$t" && mv -Tf "$t" %s && sync %s`,
		Quote(dir+unfinished+base+"-XXXXXX"), len(f.Content), Quote(f.Owner+":"+f.Group), f.Mode, Quote(f.Path), Quote(dir), unfinished)
	_, err := h.Run(ctx, Command{Script: script, Root: true, Stdin: strings.NewReader(f.Content)})
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	return nil
}

// Restore brings the file at a path back to what it was before, as ReadFile has read it; without a path: there was none.
// It does not write an unchanged file again, so that a host on which nothing could be written in the first place does not
// fail twice.
func Restore(ctx context.Context, h Host, path string, before File) error {
	if before.Path == "" {
		return AsRoot(ctx, h, "rm -f "+Quote(path))
	}
	if now, there, err := ReadFile(ctx, h, path); err == nil && there && before.Same(now) {
		return nil
	}
	return WriteFile(ctx, h, before)
}

// Keep makes a copy of a file, with its owners and mode, unless there is one. A copy that breaks off, as on a full disk, is
// none: the next one takes its place.
func Keep(ctx context.Context, h Host, path, kept string) error {
	script := fmt.Sprintf("[ -e %[2]s ] || { cp -a %[1]s %[3]s && sync %[3]s && mv -T %[3]s %[2]s; }", Quote(path), Quote(kept), Quote(kept+".new"))
	if err := AsRoot(ctx, h, script); err != nil {
		return fmt.Errorf("keep %s: %w", kept, err)
	}
	return nil
}

func (f File) complete() File {
	f.Mode = cmp.Or(f.Mode, 0o644)
	f.Owner = cmp.Or(f.Owner, "root")
	f.Group = cmp.Or(f.Group, "root")
	return f
}

// Same reports whether a file that was read equals f: content, mode and owners.
func (f File) Same(read File) bool {
	f = f.complete()
	return f.Content == read.Content && f.Mode == read.Mode && f.Owner == read.Owner && f.Group == read.Group
}

// Exists reports whether the name exists, as root.
func Exists(ctx context.Context, h Host, name string) (bool, error) {
	out, err := h.Run(ctx, Command{Script: "[ -e " + Quote(name) + " ]", Root: true, OK: []int{1}, Look: true})
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	return out.Code == 0, nil
}
