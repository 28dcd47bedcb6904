package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// cli runs one command line against s in this process. s may be nil.
func cli(t *testing.T, s *clienttest.Server, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	if s != nil {
		t.Setenv("URIFILTER_URL", s.URL)
	}
	code = run(t.Context(), args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

func TestExitCodes(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, test := range []struct {
		args []string
		code int
		want string // in the output or the error output
	}{
		{[]string{}, 0, "Ask a daemon:"},
		{[]string{"--version"}, 0, "urifilter "},
		{[]string{"help", "filter"}, 0, "Examples:"},
		{[]string{"filters"}, 0, "create"},
		{[]string{"filtr"}, 2, `urifilter: unknown command "filtr"; did you mean filter or filters?`},
		{[]string{"filters", "lst"}, 2, `urifilter: filters: unknown command "lst"; did you mean list?`},
		{[]string{"filter", "--nope"}, 2, "hint: `urifilter filter --help`"},
		{[]string{"filter", "--filtr", "uri"}, 2, "unknown flag: --filtr; did you mean --filter?"},
		{[]string{"help", "nonsense"}, 2, `unknown command "nonsense"`},
		{[]string{"completion", "tcsh"}, 2, `unknown command "tcsh"`},
		{[]string{"filter", "a", "b"}, 2, "accepts at most 1 arg"},
		{[]string{"filter", "--server", "ftp://x"}, 2, "want http or https"},
		{[]string{"filter", "--timeout", "0s"}, 2, "--timeout 0s"},
		{[]string{"filter", "--patience", "-1s"}, 2, "--patience -1s: want 0 or more"},
		{[]string{"filter", "/nonexistent/file"}, 1, "urifilter: open /nonexistent/file: "},
		{[]string{"filters", "show"}, 2, "accepts 1 arg"},
		{[]string{"filters", "create", "x", "--capacity", "many"}, 2, "want a whole number of items"},
		{[]string{"filters", "create", "x", "--kind", "simhash", "--distance", "0"}, 2, "want a whole number, such as 3"},
		{[]string{"filters", "clear", "uri"}, 2, "hint: add --confirm uri"},
		{[]string{"filters", "drop", "uri"}, 2, "hint: add --confirm uri"},
		{[]string{"filters", "drop", "uri", "--confirm", "ip"}, 2, "names another filter"},
		{[]string{"filters", "drop", "uri", "--confirm", "uri", "--yes"}, 2, "none of the others can be"},
		{[]string{"filters", "show", "nope"}, 1, "hint: known filters: ip, uri, "},
		{[]string{"config", "check", "--config", "/nonexistent/file"}, 1, "/nonexistent/file"},
		{[]string{"serve", "--durability", "often"}, 2, `durability: "often": want always or interval or none`},
		{[]string{"serve", "--listen", "0.0.0.0:0"}, 2, "set auth.tokens_file"},
	} {
		code, out, errOut := cli(t, s, "", test.args...)
		if code != test.code || !strings.Contains(out+errOut, test.want) {
			t.Errorf("%q: got code %d, output %q, errors %q; want code %d and %q", test.args, code, out, errOut, test.code, test.want)
		}
		if code != 0 && (out != "" || !strings.HasPrefix(errOut, "urifilter: ") || strings.Count(errOut, "hint: ") > 1) {
			t.Errorf("%q: output %q and errors %q; want none, and one message with one hint at most", test.args, out, errOut)
		}
	}
}

// A newcomer finds an example in the help of every command.
// TestOneNameForTheFilter: a filter that is asked is named by --filter in every command.
func TestOneNameForTheFilter(t *testing.T) {
	asking := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "filter" && strings.Contains(f.Usage, "URIFILTER_FILTER") {
				asking++
			}
			if f.Name == "type" || strings.Contains(f.Usage, "URIFILTER_TYPE") || strings.Contains(c.Example, "--type") {
				t.Errorf("%s: --%s: %s", c.CommandPath(), f.Name, f.Usage)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand())
	if asking < 7 { // filter, check, forget, reserve, commit, release, near
		t.Errorf("%d commands ask a filter", asking)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s: no example or no short description", cmd.CommandPath())
		}
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(newRootCommand())
}

func TestConfigCommands(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	write(t, good, "durability: none\nmongodb: {uri: \"mongodb://user:hunter2@db/\"}\n")
	write(t, bad, "store: paper\ndurability: often\n")
	if code, out, errOut := cli(t, nil, "", "config", "check", "-c", good); code != 0 || out != good+": good\n" {
		t.Errorf("check: got %d, %q, %q", code, out, errOut)
	}
	if code, _, errOut := cli(t, nil, "", "config", "check", "-c", bad); code != 1 || !strings.Contains(errOut, "store") || !strings.Contains(errOut, "durability") {
		t.Errorf("check of two faults: got %d, %q", code, errOut)
	}
	// An unknown key hides no other fault, of the file or of the environment.
	write(t, bad, "stor: embedded\ndurability: often\nlimits: {items: many, item_bytes: 0}\n")
	t.Setenv("URIFILTER_WRITEBACK_KEEP", "0")
	code, _, errOut := cli(t, nil, "", "config", "check", "-c", bad)
	for _, want := range []string{"stor: unknown key", "durability: \"often\"", "limits.items: ", "limits.item_bytes: ", "writeback.keep: 0"} {
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("check of five faults: got %d, no %q in %s", code, want, errOut)
		}
	}
	t.Setenv("URIFILTER_WRITEBACK_KEEP", "3")
	t.Setenv("URIFILTER_CONFIG", good)
	t.Setenv("URIFILTER_DATA_DIR", "/from/env")
	if code, out, _ := cli(t, nil, "", "config", "show"); code != 0 || !strings.Contains(out, "durability: none\n") || !strings.Contains(out, "/from/env") || strings.Contains(out, "hunter2") {
		t.Errorf("show: got %d,\n%s", code, out)
	}
	code, example, _ := cli(t, nil, "", "config", "example")
	write(t, good, example)
	if code != 0 || !strings.Contains(example, "durability") {
		t.Errorf("example: got %d, %q", code, example)
	}
	if code, _, errOut := cli(t, nil, "", "config", "check"); code != 0 {
		t.Errorf("check of the example: got %d, %q", code, errOut)
	}
	// The tokens file is part of the settings.
	t.Setenv("URIFILTER_AUTH_TOKENS_FILE", filepath.Join(dir, "none"))
	if code, _, errOut := cli(t, nil, "", "config", "check"); code != 1 || !strings.Contains(errOut, filepath.Join(dir, "none")) {
		t.Errorf("check without the tokens file: got %d, %q", code, errOut)
	}
	// So are passwords that the daemon would need.
	t.Setenv("URIFILTER_AUTH_TOKENS_FILE", "")
	t.Setenv("URIFILTER_REDIS_PASSWORD_FILE", filepath.Join(dir, "redis"))
	if code, _, errOut := cli(t, nil, "", "config", "check"); code != 0 {
		t.Errorf("check with the embedded store: got %d, %q", code, errOut)
	}
	t.Setenv("URIFILTER_STORE", "redis")
	t.Setenv("URIFILTER_MYSQL_ADDR", "127.0.0.1:3306")
	t.Setenv("URIFILTER_MYSQL_PASSWORD_FILE", filepath.Join(dir, "mysql"))
	if code, _, errOut := cli(t, nil, "", "config", "check"); code != 1 || !strings.Contains(errOut, "redis.password_file: open ") || !strings.Contains(errOut, "mysql.password_file: open ") {
		t.Errorf("check without the passwords: got %d, %q", code, errOut)
	}
	t.Setenv("URIFILTER_STORE", "embedded")
	t.Setenv("URIFILTER_MYSQL_ADDR", "")
	// So is the certificate.
	t.Setenv("URIFILTER_TLS_CERT_FILE", filepath.Join(dir, "cert.pem"))
	t.Setenv("URIFILTER_TLS_KEY_FILE", filepath.Join(dir, "key.pem"))
	if code, _, errOut := cli(t, nil, "", "config", "check"); code != 1 || !strings.Contains(errOut, filepath.Join(dir, "cert.pem")) {
		t.Errorf("check without the certificate: got %d, %q", code, errOut)
	}
}

// fullDisk is an output on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A verification whose findings could not be written has not succeeded.
func TestVerifyOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "filters"), 0o700); err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	if code := run(t.Context(), []string{"verify", "--data-dir", dir}, nil, fullDisk{}, &errOut); code != 1 || !strings.Contains(errOut.String(), syscall.ENOSPC.Error()) {
		t.Errorf("got %d, %q", code, &errOut)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := cli(t, nil, "", "version", "--json")
	var back command.Version
	if err := json.Unmarshal([]byte(out), &back); code != 0 || err != nil || back != command.ReadVersion() {
		t.Errorf("json: got %d, %v, %s", code, err, out)
	}
}

func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, errOut := cli(t, nil, "", "man", "--dir", dir); code != 0 {
		t.Fatalf("got %d, %q", code, errOut)
	}
	for _, name := range []string{"urifilter.1", "urifilter-serve.1", "urifilter-filters-create.1"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(text, []byte(".SH EXAMPLE")) {
			t.Errorf("%s: %v, or no example in it", name, err)
		}
	}
}

func TestCompletionOffersFilters(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, args := range [][]string{{"filter", "--type", ""}, {"filters", "show", ""}, {"check", "file", "--type", "uri_"}} {
		code, out, _ := cli(t, s, "", append([]string{"__complete"}, args...)...)
		if code != 0 || !strings.Contains(out, "uri_generator\tbloom, about 0 items\n") {
			t.Errorf("%q: got %d, %q", args, code, out)
		}
	}
	s.Stop()
	if code, out, _ := cli(t, s, "", "__complete", "filter", "--type", ""); code != 0 || strings.Contains(out, "uri") {
		t.Errorf("no daemon: got %d, %q", code, out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := cli(t, nil, "", "completion", shell); code != 0 || len(out) < 1000 {
			t.Errorf("%s: got %d and %d bytes", shell, code, len(out))
		}
	}
}

func TestServerWithoutScheme(t *testing.T) {
	s := clienttest.NewServer(t)
	var out, errOut bytes.Buffer
	code := run(context.Background(), []string{"filter", "-q", "--server", strings.TrimPrefix(s.URL, "http://")}, strings.NewReader("a\n"), &out, &errOut)
	if code != 0 || out.String() != "a\n" || errOut.Len() != 0 {
		t.Errorf("got %d, %q, %q", code, &out, &errOut)
	}
	if want := []string{"POST /api/v1/filter?filter_typeid=uri", "GET /api/v1/filters/uri"}; !slices.Equal(s.Requests(), want) {
		t.Errorf("requests %q, want %q", s.Requests(), want)
	}
}
