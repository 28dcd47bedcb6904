package chores

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestReportOfCommands adds up the reports of several commands, and treats a command that breaks
// as failed.
func TestReportOfCommands(t *testing.T) {
	r := Repo{Dir: "."}
	interpreter := r.python(t.Context(), pythonBasic)
	if interpreter == "" {
		t.Skip("no python3")
	}
	const (
		one     = `{"Action":"pass","Package":"a","Test":"one"}`
		skipped = `{"Action":"output","Package":"a","Test":"two","Output":"no moon\\n"}` + "\\n" + `{"Action":"skip","Package":"a","Test":"two"}`
		end     = `{"Action":"pass","Package":"a","Elapsed":1}`
	)
	run := func(noSkip bool, scripts ...string) (string, error) {
		var out bytes.Buffer
		var commands []*exec.Cmd
		for _, script := range scripts {
			commands = append(commands, exec.CommandContext(t.Context(), interpreter, "-c", script))
		}
		err := Repo{Dir: ".", Out: &out, NoSkip: noSkip}.report("python", false, commands...)
		return out.String(), err
	}
	prints := func(lines ...string) string { return "print('" + strings.Join(lines, "\\n") + "')" }
	if out, err := run(true, prints(one, end), prints(one, end)); err != nil || !strings.HasSuffix(out, "2 passed, 0 failed, 0 skipped\n") {
		t.Errorf("two good ones: %v\n%s", err, out)
	}
	if out, err := run(false, prints(one, end), prints(one, skipped, end)); err != nil || !strings.Contains(out, "skip\ta two: no moon\n") {
		t.Errorf("a skip: %v\n%s", err, out)
	}
	if _, err := run(true, prints(one, end), prints(one, skipped, end)); err == nil || !strings.Contains(err.Error(), "URIFILTER_NO_SKIP") {
		t.Errorf("a skip that is forbidden: %v", err)
	}
	if _, err := run(false, prints(one, end)+"; exit(1)", prints(one, end)); err == nil || !strings.Contains(err.Error(), "no test failed, but the command did") {
		t.Errorf("a command that breaks: %v", err)
	}
	if _, err := run(false, "pass"); err == nil {
		t.Error("no tests: no error")
	}
}
