package connection

import (
	"testing"

	"github.com/spf13/cobra"
)

// An address that the client takes is taken here, too: an error would show the password in it.
func TestTargetOfAnAddressWithBlanks(t *testing.T) {
	var c Flags
	cmd := &cobra.Command{}
	c.Register(cmd)
	if err := cmd.Flags().Set("server", " http://u:secret@127.0.0.1:1 "); err != nil {
		t.Fatal(err)
	}
	if target, err := c.Target(cmd); err != nil || target.URL.Host != "127.0.0.1:1" {
		t.Errorf("got %v, %v", target.URL, err)
	}
}
