package hosttest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/host"
)

// built is the daemon, built once per process.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "urifilter-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := programs.Real(context.Background(), dir, "first") // the mark that most tests of hosts use
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// PutProgram installs the daemon's program, built from the sources, on the host.
func (h *Host) PutProgram(t *testing.T, path string) {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	h.Sh(t, "mkdir -p "+host.Quote(filepath.Dir(path)))
	if err := h.Upload(t.Context(), host.Upload{Source: bytes.NewReader(program), Size: int64(len(program)), Path: path, Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
}
