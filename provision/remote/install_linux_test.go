package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
)

// A key is put on a host once, and not taken for one that is there where it has been commented out.
func TestInstalledKey(t *testing.T) {
	t.Parallel()
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBUGcQ"
	for before, added := range map[string]bool{
		"":                              true,
		"# " + key + " gone\n":          true,
		" \t#" + key:                    true,
		key + " mine\n":                 false,
		"# old\nrestrict " + key + "\n": false,
		"ssh-rsa AAAA #1\n":             true,
	} {
		home := t.TempDir()
		file := filepath.Join(home, ".ssh", "authorized_keys")
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			cmd := exec.Command("sh", "-c", installing(key))
			cmd.Env = append(os.Environ(), "HOME="+home)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		want := before
		if added {
			if want != "" {
				want = strings.TrimSuffix(want, "\n") + "\n"
			}
			want += key + " " + host.Toolkit + "\n"
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%q: got %q, want %q; %v", before, got, want, err)
		}
	}
}
