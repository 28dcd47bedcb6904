package daemon_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// mayNameKinds are the files that may: the kinds themselves, and what is there for tests and
// measurements.
var mayNameKinds = []string{
	"configs/kind", "daemon/internal/kinds/",
	"daemon/bench/", "daemon/internal/apitest/", "daemon/internal/chaos/", "daemon/internal/storetest/", "client/clienttest/",
}

// kindNames lists where a file names one of the kinds as a whole text of its own, or decides
// by a comparison of somebody's Kind with anything that is not another's.
func kindNames(files *token.FileSet, file *ast.File, kinds []string) []string {
	var found []string
	at := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: "+format, append([]any{files.Position(n.Pos())}, args...)...))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && slices.Contains(kinds, text) {
				at(n, "names the kind %s", text)
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isKind(n.X) && isText(n.Y) || isKind(n.Y) && isText(n.X)) {
				at(n, "compares a kind with a name")
			}
		case *ast.SwitchStmt:
			if isKind(n.Tag) && hasText(n) {
				at(n, "switches on a kind")
			}
		}
		return true
	})
	return found
}

// isKind tells whether an expression is somebody's field Kind.
func isKind(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Kind"
}

// isText is a text that is not empty.
func isText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && lit.Value != `""`
}

func hasText(s *ast.SwitchStmt) bool {
	return slices.ContainsFunc(s.Body.List, func(c ast.Stmt) bool { return slices.ContainsFunc(c.(*ast.CaseClause).List, isText) })
}

// Nothing outside a kind branches on its name: code that wants to know what a filter can do asks
// for an interface of its set, or for what its kind is made with.
func TestNobodyNamesKinds(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, k := range configs.Kinds() {
		kinds = append(kinds, k.Name)
	}
	files := token.NewFileSet()
	looked := 0
	for _, top := range []string{"configs", "client", "daemon", "provision"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			relative := filepath.ToSlash(strings.TrimPrefix(name, ".."+string(filepath.Separator)))
			switch {
			case entry.IsDir() && entry.Name() == "testdata":
				return filepath.SkipDir
			case entry.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"),
				slices.ContainsFunc(mayNameKinds, func(p string) bool { return strings.HasPrefix(relative, p) }):
				return nil
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			looked++
			for _, text := range kindNames(files, file, kinds) {
				t.Error(text)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 100 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// TestNobodyNamesKindsBites breaks the rule in each way.
func TestNobodyNamesKindsBites(t *testing.T) {
	t.Parallel()
	const text = `package x
import "bloom"
func f(s spec) {
	if s.Kind == "bloom" {}
	if "other" != s.Kind {}
	switch s.Kind { case "other": }
	const c = "timing"
	if s.Kind == "" || s.Kind == t.Kind || s.Kind != yaml.Node {}
	log("timing a thing")
}`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := kindNames(files, file, []string{"bloom", "timing"})
	want := []string{
		"x.go:4:5: compares a kind with a name", "x.go:4:15: names the kind bloom", "x.go:5:5: compares a kind with a name",
		"x.go:6:2: switches on a kind", "x.go:7:12: names the kind timing",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
