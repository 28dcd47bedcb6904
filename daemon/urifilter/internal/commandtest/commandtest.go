// Package commandtest runs command lines of single commands in the process of a test, with
// the hints and exit codes that the program gives them.
package commandtest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// Program is a program with these commands. They are made for each command line, because
// flags keep their values.
type Program []func() *cobra.Command

// Run executes a command line and returns its exit code.
func (p Program) Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := &cobra.Command{Use: "urifilter", SilenceErrors: true, SilenceUsage: true}
	for _, newCommand := range p {
		root.AddCommand(newCommand())
	}
	return command.Run(ctx, root, command.Line{Args: args, In: in, Out: out, Err: errOut, Hint: connection.Hint, Exit: connection.Exit})
}

// Ask executes a command line against a server.
func (p Program) Ask(t *testing.T, s *clienttest.Server, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("URIFILTER_URL", s.URL)
	var o, e bytes.Buffer
	code = p.Run(t.Context(), args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}
