package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestServiceRefuses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the units are Linux's")
	}
	dir := t.TempDir()
	settings := filepath.Join(dir, "u.yaml")
	if err := os.WriteFile(settings, []byte("listen: example.com:80\nauth: {tokens_file: x}\ndata_dir: /home/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"install", "--dry-run", "--config", filepath.Join(dir, "none")}, []string{"none: no such file"}},
		{[]string{"install", "--dry-run", "--config", settings}, []string{`listen "example.com:80"`, `data_dir "/home/x"`}},
		{[]string{"install", "--dry-run", "--config", settings, "--user", "root", "--binary", "a b"}, []string{`user "root"`, `binary "a b"`}},
		{[]string{"frobnicate"}, []string{`unknown command "frobnicate"`}},
	} {
		var out, errOut strings.Builder
		if code := run(t.Context(), append([]string{"service"}, c.args...), nil, &out, &errOut); code == 0 || code == 3 {
			t.Errorf("%v: exit code %d\n%s", c.args, code, out.String())
		}
		processtest.MustContain(t, errOut.String(), c.want...)
	}
}
