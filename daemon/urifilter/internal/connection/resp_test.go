package connection

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An address that cannot be read may have a password in it, which is not shown.
func TestMalformedRESPShowsNoPassword(t *testing.T) {
	var r RESP
	cmd := &cobra.Command{}
	r.Register(cmd)
	for _, url := range []string{"redis://:pass%zzword@127.0.0.1:6380", "redis://:pass word@127.0.0.1", "redis://u:password@127.0.0.1:port"} {
		if err := cmd.Flags().Set("resp", url); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Options(cmd, ""); err == nil || strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), "word") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
