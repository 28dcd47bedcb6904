package host

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What was recorded does on a host what the commands would have done: files with any bytes too. What
// only looks is left out, and a failure is noticed.
func TestRecorder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the commands are those of Linux hosts")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	group, err := user.LookupGroupId(me.Gid)
	if err != nil {
		t.Fatal(err)
	}
	r, dir := NewRecorder("web1"), t.TempDir()
	want := File{Path: filepath.Join(dir, "it's a file"), Content: "a 'quoted' $text\x00\xff\n", Mode: 0o640, Owner: me.Username, Group: group.Name}
	if err := WriteFile(t.Context(), r, want); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadFile(t.Context(), r, "/etc/passwd"); err == nil {
		t.Error("nobody has answered, and that is no error")
	}
	if _, err := r.Run(t.Context(), Command{Root: true, Script: "exit 3"}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", "failed=\n"+r.Script()+"echo failed=$failed").CombinedOutput()
	if err != nil || string(out) != "failed=1\n" {
		t.Errorf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(want.Path)
	if err != nil || string(got) != want.Content {
		t.Errorf("%q, %v", got, err)
	}
	if strings.Contains(r.Script(), "passwd") {
		t.Error("a look was recorded")
	}
}
