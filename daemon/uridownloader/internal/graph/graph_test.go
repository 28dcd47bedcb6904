package graph

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

const links = `{"from":"http://a.example/","to":"http://a.example/1","text":"one","rel":""}
{"from":"http://a.example/1","to":"http://a.example/","text":"=up","rel":""}
{"from":"http://a.example/1","to":"http://b.example/gone","text":"gone","rel":"nofollow"}
`

const index = `{"uri":"http://a.example/","file":"a","status":200,"depth":0}
{"uri":"http://a.example/1","file":"b","status":200,"depth":1}
{"uri":"http://b.example/gone","file":"c","status":404,"depth":2}
`

func folder(t *testing.T, links string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"graph.ndjson": links, "index.ndjson": index} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	root := &cobra.Command{Use: "uridownloader", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(NewCommand())
	var o, e bytes.Buffer
	code = command.Run(t.Context(), root, command.Line{Args: append([]string{"graph"}, args...), In: strings.NewReader(""), Out: &o, Err: &e, Hint: func(error) string { return "" }})
	return code, o.String(), e.String()
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := run(t, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, errOut)
	}
	return out
}

func TestReport(t *testing.T) {
	t.Parallel()
	dir := folder(t, links)
	out := must(t, dir)
	for _, want := range []string{"3 pages, 3 URIs on 2 hosts, 3 links, 3 of them distinct\n", "1      2     200  http://a.example/1\n", "Hosts, 2 of 2\n", "Dead, 1 of 1\n", "404                      1  http://b.example/gone  http://a.example/1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, args := range [][]string{{dir, "--top", "1"}, {dir, "--top=1"}} {
		if out := must(t, args...); !strings.Contains(out, "Hosts, 1 of 2") {
			t.Errorf("%q:\n%s", args, out)
		}
	}
	if out := must(t, dir, "--top"); !strings.Contains(out, "Hosts, 2 of 2") {
		t.Errorf("--top:\n%s", out)
	}
	var report struct {
		Top []struct {
			URI      string
			InDegree int `json:"in_degree"`
		}
		Dead []struct{ URI string }
	}
	if err := json.Unmarshal([]byte(must(t, dir, "--json", "--by", "in-degree")), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Top) != 3 || report.Top[0].InDegree != 1 || len(report.Dead) != 1 || report.Dead[0].URI != "http://b.example/gone" {
		t.Errorf("%+v", report)
	}
}

func TestExportsAndPicture(t *testing.T) {
	t.Parallel()
	dir := folder(t, links)
	lines, err := csv.NewReader(strings.NewReader(must(t, dir, "--graph", "csv"))).ReadAll()
	if err != nil || len(lines) != 4 || lines[2][2] != "'=up" {
		t.Errorf("%q, %v", lines, err)
	}
	file := filepath.Join(dir, "links.graphml")
	if out := must(t, dir, "--graph", "graphml", "--out", file); out != "" {
		t.Errorf("prints %q", out)
	}
	text, err := os.ReadFile(file)
	if err != nil || xml.Unmarshal(text, new(struct{})) != nil {
		t.Errorf("%s, %v", text, err)
	}
	picture := filepath.Join(dir, "links.svg")
	if out := must(t, dir, "--picture", picture, "--nodes", "2"); out != picture+": 2 of 3 URIs\n" {
		t.Errorf("prints %q", out)
	}
	drawn, err := os.ReadFile(picture)
	if err != nil || string(drawn) != must(t, dir, "--picture", "-", "--nodes", "2") {
		t.Errorf("the file and the output differ: %v", err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	dir, empty, broken := folder(t, links), t.TempDir(), folder(t, links+"{}\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "accepts between 1 and 2 arg"},
		{[]string{empty}, 1, "hint: want the folder of a crawl, which has graph.ndjson"},
		{[]string{broken}, 1, "graph.ndjson:4: no link: want {"},
		{[]string{dir, "other"}, 2, `"other": want one folder`},
		{[]string{dir, "5"}, 2, `"5": want one folder`},
		{[]string{dir, "--top", "0"}, 2, "--top 0: want 1 or more"},
		{[]string{dir, "--by", "size"}, 2, `--by "size": want pagerank or in-degree`},
		{[]string{dir, "--graph", "pdf"}, 2, `--graph "pdf": want csv, dot, graphml`},
		{[]string{dir, "--picture", "x.png"}, 2, `--picture "x.png": it is an SVG: want a name that ends in .svg`},
		{[]string{dir, "--graph", "dot", "--picture", "x"}, 2, "want one of them"},
		{[]string{dir, "--graph", "dot", "--json"}, 2, "want none of them"},
		{[]string{dir, "--out", "x"}, 2, "--out is for --graph"},
		{[]string{dir, "--nodes", "5"}, 2, "--nodes is for --picture"},
		{[]string{dir, "--picture", "x", "--nodes", "501"}, 2, "want 1 to 500"},
		{[]string{dir, "--graph", "dot", "--out", filepath.Join(dir, "no", "x")}, 1, "no such file"},
	} {
		if code, out, errOut := run(t, c.args...); code != c.code || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%q: exit code %d, %q, %q; want %d, %q", c.args, code, errOut, out, c.code, c.want)
		}
	}
}

func TestCutLineIsToldOf(t *testing.T) {
	t.Parallel()
	code, out, errOut := run(t, folder(t, links+`{"from":"http://a`))
	if code != 0 || !strings.Contains(errOut, "its last line is not whole") || !strings.Contains(out, "3 links") {
		t.Errorf("exit code %d, %q, %q", code, errOut, out)
	}
}
