package apt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/atomicfile"
	"github.com/cr-clawer/urifilter/provision/host"
)

// online is a host that has downloaded a package, with its index.
type online struct {
	host.Host
	name      string // of the package
	cut       bool   // the connection is lost while the package is fetched
	meanwhile func() // what happens while the package is fetched; nil: nothing
}

func (h online) files() map[string]string {
	return map[string]string{h.name + ".deb": h.name, Index: fmt.Sprintf("Package: %s\nFilename: ./%[1]s.deb\nSize: 1\n\n", h.name)}
}

func (h online) Run(_ context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "uname -m"):
		return host.Output{Stdout: "arch=x86_64\nos=debian\nversion=12\ncodename=bookworm\nsystemd=252\n"}, nil
	case strings.Contains(c.Script, "command -v cloud-init"):
		return host.Output{Code: 1}, nil
	case strings.Contains(c.Script, "get update"):
		out := ""
		for _, name := range []string{Index, h.name + ".deb"} {
			out += fmt.Sprintf("%d %s %s\n", len(h.files()[name]), hexSum([]byte(h.files()[name])), name)
		}
		return host.Output{Stdout: out}, nil
	}
	for name, text := range h.files() {
		if strings.HasPrefix(c.Script, "dd if="+staging+"/archives/"+name+" ") {
			if h.cut && name != Index {
				return host.Output{}, errors.New("the connection was cut")
			}
			if h.meanwhile != nil && name != Index {
				h.meanwhile()
			}
			return host.Output{Stdout: base64.StdEncoding.EncodeToString([]byte(text))}, nil
		}
	}
	return host.Output{}, nil
}

// A collection that adds to a bundle and is broken off leaves the index of what is in it: with a shorter one, hosts would
// lack packages that are there.
func TestCollectionThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n, h := range []online{{name: "a"}, {name: "b", cut: true}, {name: "b"}} {
		if err := Collect(t.Context(), h, dir, nil, h.name); (err != nil) != h.cut {
			t.Fatal(n, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "debian12-amd64", Index))
	if err != nil || strings.Count(string(text), "Filename: ./a.deb\n") != 1 || strings.Count(string(text), "Filename: ./b.deb\n") != 1 {
		t.Errorf("%v, the index has\n%s", err, text)
	}
	b, err := OpenBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// What another collection is writing into the same folder at this moment is its own: the halves of both would be mixed.
func TestCollectionsWriteApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const theirs = "half of it, written by another call"
	names := []string{Sums, "debian12-amd64/a.deb", "debian12-amd64/" + Index}
	if err := os.Mkdir(filepath.Join(dir, "debian12-amd64"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name+atomicfile.Unfinished), []byte(theirs), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Collect(t.Context(), online{name: "a"}, dir, nil, "a"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(filepath.Join(dir, name+atomicfile.Unfinished)); string(text) != theirs {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	b, err := OpenBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Of two collections at once, of packages for two roles perhaps, the one that ends later leaves the other's packages in
// the index.
func TestCollectionsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := online{name: "a", meanwhile: func() {
		if err := Collect(t.Context(), online{name: "b"}, dir, nil, "b"); err != nil {
			t.Error(err)
		}
	}}
	if err := Collect(t.Context(), first, dir, nil, "a"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "debian12-amd64", Index))
	if err != nil || strings.Count(string(text), "Filename: ./a.deb\n") != 1 || strings.Count(string(text), "Filename: ./b.deb\n") != 1 {
		t.Errorf("%v, the index has\n%s", err, text)
	}
}
