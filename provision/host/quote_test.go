package host

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// FuzzQuote passes any text through a real shell and expects it back unchanged.
func FuzzQuote(f *testing.F) {
	for _, text := range []string{"", "a", "a b", "it's", `\`, "$(id)", "`id`", "\n", "!!", "*", "~root", "-n", "ä\xff", `"`, "#", "'\\''"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "\x00") {
			t.Skip()
		}
		for _, shell := range []string{"/bin/sh", "/bin/bash"} {
			if _, err := os.Stat(shell); err != nil {
				continue
			}
			out, err := exec.Command(shell, "-c", "printf %s. "+Quote(text)).Output()
			if err != nil || string(out) != text+"." {
				t.Errorf("%s: %q came back as %q, %v", shell, text, out, err)
			}
		}
	})
}
