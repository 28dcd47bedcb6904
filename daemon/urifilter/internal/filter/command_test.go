package filter

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

// run executes a command line of filter or check.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return commandtest.Program{New, NewCheck, NewImport}.Run(ctx, args, in, out, errOut)
}

// cli runs one command line against s.
func cli(t *testing.T, s *clienttest.Server, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	return commandtest.Program{New, NewCheck, NewImport, NewExport}.Ask(t, s, stdin, args...)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
