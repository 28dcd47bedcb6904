package host

import (
	"cmp"
	"context"
	"encoding/base64"
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

// largestFile bounds what ReadFile reads, in bytes.
const largestFile = 512 << 10

// noFile is the exit code of a script for a missing file.
const noFile = 44

// ReadFile reads a file as root; false: it does not exist. Its content is not logged.
func ReadFile(ctx context.Context, h Host, name string) (File, bool, error) {
	script := fmt.Sprintf(`p=%s
[ -e "$p" ] || exit %d
stat -Lc '%%F|%%s|%%a|%%U|%%G' "$p" || exit
[ -f "$p" ] && [ "$(stat -Lc %%s "$p")" -le %d ] && cat "$p" || :`, Quote(name), noFile, largestFile)
	out, err := h.Run(ctx, Command{Script: script, Root: true, Secret: true, OK: []int{noFile}, Look: true})
	if err != nil {
		return File{}, false, fmt.Errorf("read %s: %w", name, err)
	}
	if out.Code == noFile {
		return File{}, false, nil
	}
	f, err := parseFile(name, out.Stdout)
	if err != nil {
		return File{}, false, fmt.Errorf("read %s: %w", name, err)
	}
	return f, true, nil
}

func parseFile(name, text string) (File, error) {
	head, content, _ := strings.Cut(text, "\n")
	fields := strings.Split(head, "|")
	if len(fields) != 5 {
		return File{}, fmt.Errorf("stat wrote %q", head)
	}
	size, err := strconv.ParseInt(fields[1], 10, 64)
	mode, modeErr := strconv.ParseUint(fields[2], 8, 32)
	switch {
	case errors.Join(err, modeErr) != nil:
		return File{}, fmt.Errorf("stat wrote %q", head)
	case !strings.HasPrefix(fields[0], "regular"):
		return File{}, fmt.Errorf("it is a %s: want a file", fields[0])
	case size > largestFile:
		return File{}, fmt.Errorf("%d bytes: want %d at most", size, largestFile)
	case int64(len(content)) != size:
		return File{}, fmt.Errorf("got %d of %d bytes", len(content), size)
	}
	return File{Path: name, Content: content, Mode: fs.FileMode(mode) & fs.ModePerm, Owner: fields[3], Group: fields[4]}, nil
}

// WriteFile replaces a file atomically, as root: it writes a file beside it, syncs and
// renames it. After an error the old file is unchanged. The folder must exist. The
// content goes through standard input, so it may be a secret.
func WriteFile(ctx context.Context, h Host, f File) error {
	f = f.complete()
	dir, base := path.Split(f.Path)
	// Programs that read whole folders skip names that begin with a dot. The bytes are
	// counted, because a cut connection ends the input just like its real end.
	script := fmt.Sprintf(`umask 077
t=$(mktemp %s) || exit
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t" || exit
got=$(($(wc -c <"$t")))
[ "$got" = %d ] || { echo "got $got of %[2]d bytes" >&2; exit 1; }
chown %s "$t" && chmod %#o "$t" && sync "$t" && mv -Tf "$t" %s && sync %s`,
		Quote(dir+"."+base+".XXXXXX"), len(f.Content), Quote(f.Owner+":"+f.Group), f.Mode, Quote(f.Path), Quote(dir))
	_, err := h.Run(ctx, Command{Script: script, Root: true, Stdin: strings.NewReader(f.Content)})
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
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

// ReadFiles is ReadFile for several files by one command, to save a sudo for each. The map
// lacks files that do not exist.
func ReadFiles(ctx context.Context, h Host, names ...string) (map[string]File, error) {
	script := fmt.Sprintf(`set -- %s
for p; do
	[ -e "$p" ] || { echo; echo; continue; }
	stat -Lc '%%F|%%s|%%a|%%U|%%G' "$p" || exit
	[ -f "$p" ] && [ "$(stat -Lc %%s "$p")" -le %d ] && base64 -w0 <"$p"
	echo
done`, Words(names...), largestFile)
	out, err := h.Run(ctx, Command{Script: script, Root: true, Secret: true, Look: true})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", strings.Join(names, ", "), err)
	}
	lines := strings.Split(strings.TrimSuffix(out.Stdout, "\n"), "\n")
	if len(lines) != 2*len(names) {
		return nil, fmt.Errorf("read %s: got %d lines", strings.Join(names, ", "), len(lines))
	}
	files := map[string]File{}
	for i, name := range names {
		head, coded := lines[2*i], lines[2*i+1]
		if head == "" {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		f, err := parseFile(name, head+"\n"+string(content))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		files[name] = f
	}
	return files, nil
}
