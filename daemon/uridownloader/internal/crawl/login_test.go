package crawl

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
	code = command.Run(t.Context(), root, command.Line{Args: append([]string{"crawl"}, args...), In: strings.NewReader(""), Out: &o, Err: &e, Hint: func(error) string { return "" }})
	return code, o.String(), e.String()
}

// TestLogin: a crawl by the command stores what users see; if the login file is wrong, or its login
// fails, the error names the file.
func TestLogin(t *testing.T) {
	t.Setenv("BOARD_PASSWORD", board.Password)
	b := board.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bbs.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "BASE", b.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	args := []string{b.URL + "/index.php", "--allow-private", "--delay", "0", "--out", out, "--login", file}
	const steps = "page: BASE/login.php\nfields: {username: 小明, password: {env: BOARD_PASSWORD}}\n"
	write(steps)
	if code, _, errOut := run(t, args...); code != 1 || !strings.Contains(errOut, "--login: "+file+":1: check: it is missing") {
		t.Errorf("no check: exit code %d, %s", code, errOut)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("there is a folder of a crawl that was refused: %v", err)
	}
	write(steps + "check: {text: no such text}\n")
	if code, _, errOut := run(t, args...); code != 1 || !strings.Contains(errOut, "--login: "+file+":1: "+b.URL+`/index.php: check: the page has no "no such text"`) {
		t.Errorf("a check that does not hold: exit code %d, %s", code, errOut)
	}
	write(steps + "check: {text: 退出}\n")
	if code, _, errOut := run(t, "--resume", "--out", out); code != 0 {
		t.Errorf("exit code %d, %s", code, errOut)
	}
	index, err := os.ReadFile(filepath.Join(out, "index.ndjson"))
	if err != nil || !strings.Contains(string(index), `"uri":"`+b.URL+`/post.php"`) || strings.Contains(string(index), "logout") {
		t.Errorf("%s, %v", index, err)
	}
}
