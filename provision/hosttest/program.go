package hosttest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
)

// built is the daemon, built once per process.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "urifilter-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "urifilter")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "github.com/cr-clawer/urifilter/daemon/urifilter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, &buildError{string(text), err}
	}
	return os.ReadFile(out)
})

type buildError struct {
	output string
	err    error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.output }

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
