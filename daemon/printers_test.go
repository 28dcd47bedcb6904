package daemon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// printers are all places that have the terminal itself, with the reason why what others have written does not get
// there as it is. All other code is given its outputs by command.Run, which protects them (terminal.Protect).
var printers = map[string]string{
	"urifilter/main.go: os.Stdout":                              "is given to command.Run",
	"urifilter/main.go: os.Stderr":                              "is given to command.Run",
	"uridownloader/main.go: os.Stdout":                          "is given to command.Run",
	"uridownloader/main.go: os.Stderr":                          "is given to command.Run",
	"urifilter/serve.go: os.Stderr":                             "the log, which quotes what is not printable",
	"uridownloader/serve.go: os.Stderr":                         "the log, which quotes what is not printable",
	"internal/program/lifecycle/stopguard.go: os.Stderr":        "our own goroutines",
	"internal/download/browser/chromium/chromium.go: os.Stderr": "a pipe to the worker",
	"internal/download/script/child/answer.go: os.Stdout":       "a pipe to the worker",
	"internal/download/script/child/child.go: os.Stdout":        "a pipe to the worker",
	"internal/download/script/child/child.go: os.Stderr":        "a pipe to the worker",
	"internal/crawl/charset/train/main.go: os.Stdout":           "a program for developers; prints numbers",
	"internal/crawl/charset/train/main.go: os.Stderr":           "a program for developers; prints numbers",
	"internal/program/command/reader.go: os.Stdout":             "asks for its name",
	"internal/program/service/command.go: terminal.Stream":      "journalctl, which escapes what is not printable itself",
	"urifilter/internal/filter/reader_unix.go: terminal.Stream": "asks whether anybody reads, and writes nothing",
	"internal/program/terminal/terminal.go: escape":             "the one place that moves the cursor",
	"internal/program/terminal/terminal.go: terminal.Stream":    "its own",
}

// Nobody writes to a terminal past terminal.Text, and nobody else writes control characters of our own.
func TestPrinters(t *testing.T) {
	found := map[string]token.Position{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path = filepath.ToSlash(path); d.IsDir() && (d.Name() == "testdata" || path == "bench" || path == "internal/testkit" || strings.HasSuffix(path, "/processtest")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains([]string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "terminal.Stream", "syscall.Stdout", "syscall.Stderr"}, x.Name+"."+n.Sel.Name) {
					what = x.Name + "." + n.Sel.Name
				}
			case *ast.CallExpr:
				name, ok := n.Fun.(*ast.Ident)
				switch {
				case ok && (name.Name == "print" || name.Name == "println"):
					what = name.Name
				case ok && name.Name == "Stream" && file.Name.Name == "terminal":
					what = "terminal.Stream"
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.ContainsAny(strings.ReplaceAll(strings.ToLower(n.Value), `\\x1b`, ""), "\x1b") ||
					n.Kind == token.STRING && !strings.HasPrefix(n.Value, "`") && (strings.Contains(strings.ToLower(n.Value), `\x1b[`) || strings.Contains(n.Value, `\033[`) || strings.Contains(strings.ToLower(n.Value), `\u001b[`)) {
					what = "escape"
				}
			}
			if what != "" {
				found[path+": "+what] = files.Position(n.Pos())
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for place, at := range found {
		if printers[place] == "" {
			t.Errorf("%s: %s: write to the outputs of the command (cmd.OutOrStdout), and redraw by package terminal; or list it in printers, and say why nobody else's text gets there", at, place)
		}
	}
	for place := range printers {
		if _, is := found[place]; !is {
			t.Errorf("printers lists %q, which does not exist", place)
		}
	}
}
