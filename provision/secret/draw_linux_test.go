package secret

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileScript(t *testing.T) {
	dir := t.TempDir()
	f := File{Path: filepath.Join(dir, "it's"), Temporary: filepath.Join(dir, ".new.XXXXXX"), Before: "requirepass ",
		Owner: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), Mode: "0640"}
	var drawn []string
	for range 2 {
		if out, err := exec.Command("sh", "-c", f.Script()).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		content, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		text, found := strings.CutPrefix(string(content), f.Before)
		if !found || !IsDrawn(text) || !strings.HasSuffix(text, "\n") {
			t.Errorf("%q", content)
		}
		drawn = append(drawn, text)
	}
	if drawn[0] == drawn[1] {
		t.Error("the same secret twice")
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want the file alone", left, err)
	}
}

func TestIsDrawn(t *testing.T) {
	digits := strings.Repeat("0f", 32)
	for text, want := range map[string]bool{digits: true, digits + "\n": true, digits + "\n\n": false, digits[1:]: false, digits + "0": false,
		strings.ToUpper(digits): false, "": false, " " + digits: false} {
		if IsDrawn(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
