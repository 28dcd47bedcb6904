package filter

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// run executes a command line of a program that has the commands of this package.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := &cobra.Command{Use: "urifilter", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(), NewCheck())
	return command.Run(ctx, root, command.Line{Args: args, In: in, Out: out, Err: errOut, Hint: connection.Hint, Exit: connection.Exit})
}

// cli runs one command line against s.
func cli(t *testing.T, s *clienttest.Server, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("URIFILTER_URL", s.URL)
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
