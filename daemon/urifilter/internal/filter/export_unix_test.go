//go:build unix

package filter

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

// An export has a secret in it: nobody else may read the file, not even one that was there.
func TestExportIsOnlyForItsOwner(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		io.WriteString(w, digestsMark+"1}\n")
		return true
	})
	file := filepath.Join(t.TempDir(), "jobs.digests")
	write(t, file, "")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := cli(t, s, "", "export", "--output", file, "jobs"); code != 0 {
		t.Fatalf("got %d, %q", code, errOut)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want it to be readable by its owner alone", info.Mode(), err)
	}
}
