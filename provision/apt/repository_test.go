package apt

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
)

// busy is a host with an entry of the toolkit, on which apt-get fails.
type busy struct {
	host.Host
	files map[string]string
	says  string // what apt-get writes
	lost  bool   // the connection is lost while apt-get runs
	gone  bool   // and is
}

func (h *busy) Run(_ context.Context, c host.Command) (host.Output, error) {
	if h.gone = h.gone || h.lost && strings.Contains(c.Script, "apt-get"); h.gone {
		return host.Output{}, &host.ConnectionError{Host: "web1", Err: io.ErrUnexpectedEOF}
	}
	switch {
	case strings.Contains(c.Script, "stat -Lc"):
		for path, text := range h.files {
			if strings.Contains(c.Script, "set -- "+path+"\n") {
				return host.Output{Stdout: "1\n" + strings.Join([]string{"regular file", strconv.Itoa(len(text)), "644", "root", "root"}, "|") + "\n" + text}, nil
			}
		}
		return host.Output{Stdout: "0\n"}, nil
	case strings.Contains(c.Script, "apt-get"):
		return host.Output{Stdout: h.says, Code: 100}, nil
	case strings.Contains(c.Script, "mktemp"):
		text, err := io.ReadAll(c.Stdin)
		for path := range h.files {
			if strings.Contains(c.Script, ` && mv -Tf "$t" `+path+" ") {
				h.files[path] = string(text)
			}
		}
		return host.Output{}, err
	case strings.HasPrefix(c.Script, "rm -f "):
		for _, path := range strings.Fields(c.Script)[2:] {
			delete(h.files, path)
		}
	}
	return host.Output{}, nil
}

// An entry that cannot be changed now, as the network is away, stays as it was: the host would have no repository, or one
// with which all of apt-get fails. So it is if the operator's machine is gone before that is known.
func TestRepositoryThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool]string{false: "repository https://new.example/apt", true: "web1"} {
		repositoryThatCannotBeChanged(t, lost, want)
	}
}

func repositoryThatCannotBeChanged(t *testing.T, lost bool, want string) {
	t.Helper()
	old := Repository{Name: "mongodb", URL: "https://old.example/apt", Suite: "bookworm/mongodb-org/8.0", Component: "main", Key: []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\nold\n")}
	h := &busy{files: map[string]string{old.sourcePath(): old.source(), old.keyPath(): string(old.Key)}, says: "E: Failed to fetch: Temporary failure resolving\n", lost: lost}
	other := old
	other.URL, other.Key = "https://new.example/apt", []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\nnew\n")
	c, err := New(Options{}).Repository(other).Look(t.Context(), h)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if err := c.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("lost: %v: got %v", lost, err)
	}
	if h.files[old.sourcePath()] != old.source() || h.files[old.keyPath()] != string(old.Key) {
		t.Errorf("lost: %v: the host has %q", lost, h.files)
	}
}
