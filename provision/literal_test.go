package provision_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/program/uridownloader"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
)

// Everything specific to a program is in its description. The packages that upload, set up, start
// and watch a program contain no program's name and import no description, and neither do the
// templates of the units. The list of all programs is in options.go.
func TestNoProgramIsKnownByName(t *testing.T) {
	t.Parallel()
	names := []string{urifilter.Program().Name, uridownloader.Program().Name}
	for _, dir := range []string{".", "program", "rollout", "site", "release", "settings", "service", "schedule", "environment", "bitmap", "fleet", "step", "../systemd", "../daemon/internal/program/service"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		looked := 0
		for _, f := range files {
			path := filepath.ToSlash(filepath.Join(dir, f.Name()))
			switch {
			case f.IsDir(), strings.HasSuffix(path, "_test.go"), path == "../systemd/urifilter.go": // the description
				continue
			case strings.HasSuffix(path, ".go"):
				looked++
				literals(t, path, func(at token.Position, text string) {
					for _, name := range names {
						if strings.Contains(text, name) && text != "."+name { // the toolkit's own folder on the laptop
							t.Errorf("%s: %q names a program: ask its description", at, text)
						}
					}
				})
			default:
				looked++
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					if strings.Contains(string(text), name) {
						t.Errorf("%s names a program", path)
					}
				}
			}
		}
		if looked == 0 {
			t.Errorf("%s: there is nothing to look at", dir)
		}
	}
}

// literals calls found with the string literals of a file, except the paths of its imports. It
// checks that none of those is the path of a description.
func literals(t *testing.T, path string, found func(token.Position, string)) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if strings.Contains(n.Path.Value, "/provision/program/") && path != "options.go" {
				t.Errorf("%s imports %s: take a program.Program", set.Position(n.Pos()), n.Path.Value)
			}
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				found(set.Position(n.Pos()), text)
			}
		}
		return true
	})
}
