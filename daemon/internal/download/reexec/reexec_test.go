package reexec

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test runs this binary, which ignores our first arguments, with each of them: it must refuse
// to run others.
func TestRecursionIsRefused(t *testing.T) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") { // it is the second process
		t.Fatal(Check())
	}
	if err := Check(); err != nil {
		t.Fatalf("the first process is refused: %v", err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{JobCode, JobCodeInPython, Browser} {
		cmd := exec.Command(program, command, "1", "2", "3")
		cmd.Env = []string{}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), (&RecursionError{command}).Error()[:40]) || !strings.Contains(string(out), "hint: ") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	var recursion *RecursionError
	if err := check([]string{"uridownloader", Browser}); !errors.As(err, &recursion) || recursion.Command != Browser {
		t.Errorf("error %v", err)
	}
	for _, args := range [][]string{nil, {"uridownloader"}, {"uridownloader", "serve", JobCode}} {
		if err := check(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Of what a program writes, the beginning is kept, and all of it counts as written.
func TestHead(t *testing.T) {
	h := Head{Limit: 5}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := h.Write([]byte(text)); n != 3 || err != nil {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	if got := h.String(); got != "abcde" {
		t.Errorf("%q is kept", got)
	}
}
