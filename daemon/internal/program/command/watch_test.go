package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// With --json the output has nothing but JSON, also while nobody answers; that is told elsewhere.
func TestWatchedJSONIsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 7*time.Second)
		defer stop()
		var out, errOut bytes.Buffer
		var w Watching
		polls := 0
		cmd := &cobra.Command{Use: "watch", RunE: func(cmd *cobra.Command, _ []string) error {
			return Watch(cmd.Context(), cmd.OutOrStdout(), w, func(context.Context) (int, error) {
				if polls++; polls == 2 {
					return 0, errors.New("it is being restarted")
				}
				return polls, nil
			}, func(int, io.Writer) error { return nil })
		}}
		w.Flags(cmd)
		cmd.SetArgs([]string{"--json"})
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		if err := cmd.ExecuteContext(ctx); err != nil {
			t.Error(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("the output has %q", line)
			}
		}
		if out.String() != "1\n3\n4\n" || errOut.String() != "no answer: it is being restarted\n" {
			t.Errorf("output %q, errors %q", &out, &errOut)
		}
	})
}
