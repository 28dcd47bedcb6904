package form

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form/board"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	root := &cobra.Command{Use: "uridownloader", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(NewCommand())
	var o, e bytes.Buffer
	code = command.Run(t.Context(), root, command.Line{Args: append([]string{"form"}, args...), In: strings.NewReader(""), Out: &o, Err: &e, Hint: func(error) string { return "" }})
	return code, o.String(), e.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bbs.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const steps = `
cookies: kept
steps:
  - page: BASE/login.php
    fields: {username: 小明, password: {env: BOARD_PASSWORD}}
    check: {text: 退出}
  - page: post.php
    fields: {title: 你好, text: 文字}
    check: {uri: read.php}
`

func TestForm(t *testing.T) {
	t.Setenv("BOARD_PASSWORD", board.Password)
	b := board.New(t)
	path := write(t, strings.ReplaceAll(steps, "BASE", b.URL))
	if code, out, errOut := run(t, path, "--check"); code != 0 || out != path+": good\n" || len(b.Bodies) != 0 {
		t.Errorf("--check: exit code %d, %q, %q", code, out, errOut)
	}
	if code, _, errOut := run(t, path); code != 1 || !strings.Contains(errOut, "hint: --allow-private allows") {
		t.Errorf("loopback: exit code %d, %q", code, errOut)
	}
	code, out, errOut := run(t, path, "--allow-private")
	want := "step 1 of 2: a form was sent by post; 200 " + b.URL + "/index.php (gb18030)\nstep 2 of 2: a form was sent by post; 200 " + b.URL + "/read.php?id=0 (gb18030)\n"
	if code != 0 || out != want || len(b.Posts) != 1 || b.Posts[0].Text != "文字" {
		t.Errorf("exit code %d, %q, %q; the board has %+v", code, out, errOut, b.Posts)
	}
	code, out, errOut = run(t, path, "--allow-private", "--json") // logged in by saved cookies
	if code != 0 || !strings.HasPrefix(out, `{"encoding":"gb18030","sent":"","status":200,"step":1`) || len(b.Posts) != 2 {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
	code, out, errOut = run(t, path, "--allow-private", "--print")
	if code != 0 || !strings.Contains(out, "<title>你好</title>") || strings.Contains(out, "step") {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
}

func TestFormFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"page: http://a.example/\nfields: {p: {env: NO_SUCH_VARIABLE_HERE}}\n": "bbs.yaml:2: fields.p: the variable NO_SUCH_VARIABLE_HERE is not set",
		"pages: http://a.example/\n": "bbs.yaml:1: pages: unknown key; did you mean page?",
	} {
		path := write(t, text)
		if code, out, errOut := run(t, path); code != 1 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d, %q, %q", text, code, out, errOut)
		}
	}
	if code, _, errOut := run(t, filepath.Join(t.TempDir(), "none")); code != 1 || !strings.Contains(errOut, "no such file") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}
