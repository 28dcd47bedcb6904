package filter

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

// TestNamesOfTheFilter: --filter and URIFILTER_FILTER, and their old names.
func TestNamesOfTheFilter(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, args := range [][]string{{"--filter", "ip"}, {"--filter=ip"}, {"-t", "ip"}, {"--type", "ip"}, {"--type=2"}} {
		if code, _, errOut := cli(t, s, "a\n", append([]string{"check", "--summary=json"}, args...)...); code != 0 || !strings.HasPrefix(errOut, `{"filter":"`+strings.TrimPrefix(args[len(args)-1][strings.LastIndex(args[len(args)-1], "=")+1:], "=")+`"`) {
			t.Errorf("%q: %d, %q", args, code, errOut)
		}
	}
	asked := func(args ...string) string {
		t.Helper()
		_, _, errOut := cli(t, s, "a\n", append([]string{"check", "--summary=json"}, args...)...)
		name, _, _ := strings.Cut(strings.TrimPrefix(errOut, `{"filter":"`), `"`)
		return name
	}
	if got := asked(); got != "uri" {
		t.Errorf("by itself: %s", got)
	}
	t.Setenv("URIFILTER_TYPE", "ip")
	if got := asked(); got != "ip" {
		t.Errorf("the old variable: %s", got)
	}
	t.Setenv("URIFILTER_FILTER", "uri_parse")
	if got := asked(); got != "uri_parse" {
		t.Errorf("the variable: %s", got)
	}
	if got := asked("--type", "ip"); got != "ip" {
		t.Errorf("a flag before the variables: %s", got)
	}
}

// TestFilterAsArgument: who names the filter by an argument is told how it is done.
func TestFilterAsArgument(t *testing.T) {
	s := clienttest.NewServer(t)
	file := filepath.Join(t.TempDir(), "a.txt")
	write(t, file, "a\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"filter", "uri", file}, 2, "accepts at most 1 arg(s), received 2\nhint: the filter is named by a flag: urifilter filter --filter uri " + file + "\n"},
		{[]string{"check", "3", file}, 2, "hint: the filter is named by a flag: urifilter check --filter 3 " + file + "\n"},
		{[]string{"filter", file, file}, 2, "hint: `cat FILE... | urifilter filter` reads several files\n"},
		{[]string{"check", "uri_parse"}, 1, "hint: if uri_parse is the filter: --filter uri_parse, and the file after it\n"},
	} {
		if code, out, errOut := cli(t, s, "", c.args...); code != c.code || out != "" || !strings.HasSuffix(errOut, c.want) {
			t.Errorf("%q: %d, %q, %q; want %d and %q", c.args, code, out, errOut, c.code, c.want)
		}
	}
	if code, _, errOut := cli(t, s, "", "check", "missing.txt"); code != 1 || strings.Contains(errOut, "--filter") {
		t.Errorf("%d, %q", code, errOut)
	}
}
