package daemon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
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
	"../configs/terminal/terminal.go: escape":                   "the one place that moves the cursor",
	"../configs/terminal/terminal.go: terminal.Stream":          "its own",
	"../magefiles/release/main.go: os.Stdout":                   "a program for developers; prints names of platforms",
	"../magefiles/release/main.go: os.Stderr":                   "a program for developers",
	"../magefiles/release/main.go: fmt.Printf":                  "names of platforms, from its own flags",

	// The toolkit is given its outputs by provision.Open and MakeToken, which protect them.
	"../provision/options.go: os.Stdout":    "the default of an option",
	"../provision/options.go: os.Stderr":    "the default of an option",
	"../provision/options.go: o.Stdout":     "the option gets its default",
	"../provision/options.go: o.Stderr":     "the option gets its default",
	"../provision/toolkit.go: o.Stdout":     "is protected, and is given to the display",
	"../provision/toolkit.go: o.Stderr":     "is protected, and is given to the display",
	"../provision/tokens.go: o.Stdout":      "a token that was made here",
	"../provision/tokens.go: o.Stderr":      "is protected",
	"../provision/report/open.go: o.Stdout": "JSON lines are protected; what is for people goes through clean, which ends in terminal.Text",
	"../provision/report/open.go: o.Stderr": "what is for people goes through clean, which ends in terminal.Text",
	"../provision/report/text.go: escape":   "our own colours, around what is clean",
	"../provision/report/live.go: escape":   "moves the cursor over lines of our own",
	"../magefiles/toolkit.go: os.Stderr":    "asks whether mage's error, which it makes safe, goes to a terminal; the words of a call; and the compiler",
	"../magefiles/toolkit.go: fmt.Print":    "the help",
	"../magefiles/mage/main.go: os.Stdout":  "is given to mage",
	"../magefiles/mage/main.go: os.Stderr":  "the words of a call, and is given to mage",
	"../magefiles/mage/main.go: fmt.Print":  "the help",
	"../magefiles/targets.go: os.Stdout":    "the tools of Go, about this repository",
	"../magefiles/chores/run.go: os.Stderr": "a daemon on this machine, whose log quotes what is not printable",
	"../magefiles/sandbox.go: fmt.Println":  "hosts for trials, on this machine",
	"../magefiles/sandbox.go: os.Stdout":    "a shell on a host for trials, as ssh gives it",
	"../magefiles/sandbox.go: os.Stderr":    "a shell on a host for trials, as ssh gives it",
}

// forTests are folders of tests, and of the tools that make them.
var forTests = []string{"bench", "internal/testkit", "../provision/e2e", "../provision/sandbox", "../provision/hosttest"}

// Nobody writes to a terminal past terminal.Text, and nobody else writes control characters of our own.
func TestPrinters(t *testing.T) {
	found := map[string]token.Position{}
	files := token.NewFileSet()
	visit := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path = filepath.ToSlash(path); d.IsDir() && (d.Name() == "testdata" || slices.Contains(forTests, path) || strings.HasSuffix(path, "/processtest")) {
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
				if text := types.ExprString(n); slices.Contains([]string{"o.Stdout", "o.Stderr", "t.o.Stdout", "t.o.Stderr"}, text) { // of the toolkit's options
					what = strings.TrimPrefix(text, "t.")
				}
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
	}
	for _, root := range []string{".", "../configs/terminal", "../provision", "../magefiles"} {
		if err := filepath.WalkDir(root, visit); err != nil {
			t.Fatal(err)
		}
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
