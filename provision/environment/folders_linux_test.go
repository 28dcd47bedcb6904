package environment

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// elsewhere is this machine as a host, whose folders are below another one.
type elsewhere struct {
	host.Host
	dir string
}

func (h elsewhere) Run(ctx context.Context, c host.Command) (host.Output, error) {
	script := strings.NewReplacer("/opt/", h.dir+"/opt/", "/etc/", h.dir+"/etc/", "/var/lib/", h.dir+"/var/lib/").Replace(c.Script)
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return host.Output{}, errors.New(err.Error() + ": " + stderr.String())
	}
	return host.Output{Stdout: stdout.String()}, nil
}

// What is made in a folder with the set-group-ID, as some sites give to /opt, has it too: it is taken away, or a
// deployment would find a difference that it cannot remove.
func TestFoldersBelowOneWithSetGroupID(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root gives folders to others")
	}
	h := elsewhere{dir: t.TempDir()}
	for _, name := range []string{"opt", "etc", "var/lib"} {
		path := filepath.Join(h.dir, name)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o775|os.ModeSetgid)); err != nil {
			t.Fatal(err)
		}
	}
	folders := Options{Program: systemd.Urifilter(), User: "root", Group: "root"}.folders()
	c, err := folders.Look(t.Context(), h)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if err := c.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err = folders.Look(t.Context(), h); c != nil || err != nil {
		t.Errorf("still differs: %+v, %v", c, err)
	}
}
