package apt

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/provision/atomicfile"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// gather downloads packages with all dependencies, as if nothing were installed, and drops those
// that every Debian has. It writes an index of the rest, and lists them and the index: size,
// SHA-256, name. Everything apt writes goes below the folder; its folder parts has our
// repositories, to which those of the host are added.
const gather = `cd %s && mkdir -p archives/partial lists/partial parts && : >status || exit
for f in /etc/apt/sources.list.d/*; do [ ! -f "$f" ] || cp "$f" parts/ || exit; done
get() {
	apt-get -y -q -oDir::State::status="$PWD/status" -oDir::State::lists="$PWD/lists" -oDir::Etc::sourceparts="$PWD/parts" \
		-oDir::Cache::archives="$PWD/archives" -oDir::Cache::pkgcache= -oDir::Cache::srcpkgcache= \
		-oAPT::Sandbox::User=root -oAcquire::Retries=3 "$@" >log 2>&1 || { cat log >&2; exit 100; }
}
get update
get --no-install-recommends --download-only install -- %s
cd archives && for f in *.deb; do
	case "$(dpkg-deb --field "$f" Priority Essential)" in *required*|*"Essential: yes"*) continue;; esac
	size=$(stat -c %%s "$f") sum=$(sha256sum <"$f" | cut -d' ' -f1)
	dpkg-deb --field "$f" && printf 'Filename: ./%%s\nSize: %%s\nSHA256: %%s\n\n' "$f" "$size" "$sum" || exit
	echo "$size $sum $f" >&3
done 3>../listed >Packages
echo "$(stat -c %%s Packages) $(sha256sum <Packages | cut -d' ' -f1) Packages"
cat ../listed`

// piece is how many bytes of a file one command transfers.
const piece = 384 << 10

// Collect makes a bundle in the folder dir, or adds to it: packages and their dependencies,
// downloaded by a host that has a network, for hosts of the same release and processor that have
// none. It uses the given repositories and those of the host. The host is not changed.
func Collect(ctx context.Context, h host.Host, dir string, repositories []Repository, packages ...string) (err error) {
	facts, err := host.FactsOf(ctx, h)
	if err != nil {
		return err
	}
	if err := Supported(facts); err != nil {
		return err
	}
	if err := New(Options{}).boot(ctx, h); err != nil {
		return err
	}
	if err := host.AsRoot(ctx, h, "rm -rf "+staging+" && install -d -m 755 "+staging+" "+staging+"/parts"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clearStaging(context.WithoutCancel(ctx), h)) }()
	for _, r := range repositories {
		if err := r.Validate(); err != nil {
			return err
		}
		key := staging + "/" + path.Base(r.keyPath())
		for _, f := range []host.File{{Path: key, Content: string(r.Key)}, {Path: staging + "/parts/" + path.Base(r.sourcePath()), Content: r.sourceWith(key)}} {
			if err := host.WriteFile(ctx, h, f); err != nil {
				return err
			}
		}
	}
	step.Say(ctx, "apt: downloading %s and what they need", strings.Join(packages, ", "))
	out, err := h.Run(ctx, host.Command{Script: fmt.Sprintf(gather, staging, host.Words(packages...)), Root: true, OK: []int{100}})
	if err != nil {
		return err
	}
	if out.Code == 100 {
		return explain("apt-get", out.Stderr)
	}
	folder := filepath.Join(dir, Platform(facts))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out.Stdout), "\n")
	step.Say(ctx, "apt: fetching %d packages", len(lines)-1)
	for _, line := range slices.Concat(lines[1:], lines[:1]) { // the index, which comes first, last
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("apt: the host listed %q", line)
		}
		size, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return fmt.Errorf("apt: the host listed %q", line)
		}
		to := filepath.Join(folder, filepath.Base(fields[2]))
		if old, err := os.ReadFile(to); err == nil && hexSum(old) == fields[1] {
			continue
		}
		content, err := fetch(ctx, h, staging+"/archives/"+fields[2], size, fields[1])
		if err == nil && fields[2] == Index {
			content, err = withOld(content, to)
		}
		if err == nil {
			err = atomicfile.Write(to, content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return WriteSums(dir)
}

// withOld adds the entries of an earlier collection that an index lacks. It is called when all packages are here: another
// collection may have added to the old index meanwhile.
func withOld(text []byte, name string) ([]byte, error) {
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(old), "\n\n") {
		i := strings.Index(entry, "\nFilename: ")
		if i < 0 {
			continue
		}
		file, _, _ := strings.Cut(entry[i+1:], "\n")
		if !strings.Contains(string(text), "\n"+file+"\n") {
			text = append(text, strings.TrimSpace(entry)+"\n\n"...)
		}
	}
	return text, nil
}

// fetch returns the content of a file on the host.
func fetch(ctx context.Context, h host.Host, from string, size int64, sum string) (content []byte, err error) {
	for at := int64(0); at < size; at += piece {
		script := fmt.Sprintf("dd if=%s bs=%d skip=%d count=1 2>/dev/null | base64 -w0", host.Quote(from), piece, at/piece)
		// Secret: base64 is useless in a log.
		out, err := h.Run(ctx, host.Command{Script: script, Root: true, Secret: true})
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w", from, err)
		}
		part, err := base64.StdEncoding.DecodeString(strings.TrimSpace(out.Stdout))
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w", from, err)
		}
		content = append(content, part...)
	}
	if hexSum(content) != sum {
		return nil, fmt.Errorf("fetch %s: it arrived damaged: run the same command again", from)
	}
	return content, nil
}

func hexSum(content []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// WriteSums lists all files of a folder in SHA256SUMS, as a bundle needs it.
func WriteSums(dir string) error {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == Sums || strings.HasSuffix(path, atomicfile.Unfinished) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		lines = append(lines, hexSum(content)+"  ./"+filepath.ToSlash(name)+"\n")
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return atomicfile.Write(filepath.Join(dir, Sums), []byte(strings.Join(lines, "")), 0o644)
}
