package daemon_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// mayNameKinds are the files that may: the kinds themselves, and what is there for tests and
// measurements.
var mayNameKinds = []string{
	"configs/kind", "daemon/internal/filter/kinds/",
	"daemon/bench/", "daemon/internal/testkit/apitest/", "daemon/internal/testkit/chaos/", "daemon/internal/testkit/storetest/", "client/clienttest/",
}

// mayExplainKinds are help texts of commands, which tell people what the kinds are for.
var mayExplainKinds = []string{
	"daemon/urifilter/internal/bitmap/bitmap.go", "daemon/urifilter/internal/filter/command.go", "daemon/urifilter/internal/filter/export.go", "daemon/urifilter/internal/filter/filter.go",
	"daemon/urifilter/internal/filter/forget.go", "daemon/urifilter/internal/filter/import.go", "daemon/urifilter/internal/filter/settle.go",
	"daemon/urifilter/internal/filters/filters.go",
	"daemon/urifilter/internal/near/near.go", "daemon/urifilter/internal/size/size.go", "daemon/internal/front/http/status/texts.go",
}

// ofKinds are the packages of single kinds: the memory, in one store or another, of their filters.
var ofKinds = []string{
	module + "/daemon/internal/filter/kinds/", module + "/daemon/internal/filter/bloom", module + "/daemon/internal/filter/timing", module + "/daemon/internal/filter/simhash",
	module + "/daemon/internal/store/redis/bitmap", module + "/daemon/internal/store/redis/timed", module + "/daemon/internal/store/redis/exact",
}

// kindRules is what no file outside of a kind may have.
type kindRules struct {
	kinds   []string       // their names
	params  []string       // the types of their parameters, in package configs
	mention *regexp.Regexp // of a kind, in a text for people; nil: texts may
}

func rulesOfKinds() kindRules {
	var r kindRules
	for _, k := range configs.Kinds() {
		r.kinds, r.params = append(r.kinds, k.Name), append(r.params, reflect.TypeOf(k.Params).Name())
	}
	r.mention = regexp.MustCompile(`\bkinds? "?(` + strings.Join(r.kinds, "|") + `)\b`)
	return r
}

// names lists where a file names one of the kinds as a whole text of its own or tells people
// about it, or decides by a comparison of somebody's Kind with anything that is not another's, or
// by a type that only one kind has.
func (r kindRules) names(files *token.FileSet, file *ast.File) []string {
	var found []string
	at := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: "+format, append([]any{files.Position(n.Pos())}, args...)...))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil // not a text for people
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			switch {
			case err != nil || n.Kind != token.STRING:
			case slices.Contains(r.kinds, text):
				at(n, "names the kind %s", text)
			case r.mention != nil && r.mention.MatchString(text):
				at(n, "tells of the %s", r.mention.FindString(text))
			}
		case *ast.TypeAssertExpr:
			if r.ofKind(file, n.Type) {
				at(n, "asserts a type of a kind")
			}
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				if slices.ContainsFunc(c.(*ast.CaseClause).List, func(e ast.Expr) bool { return r.ofKind(file, e) }) {
					at(c, "switches on a type of a kind")
				}
			}
		case *ast.IndexExpr:
			if asserts(n.X) && r.ofKind(file, n.Index) {
				at(n, "asks for a type of a kind")
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

// ofKind tells whether an expression, perhaps nil, is a type that belongs to one kind.
func (r kindRules) ofKind(file *ast.File, e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	switch e := e.(type) {
	case *ast.Ident:
		return file.Name.Name == "configs" && slices.Contains(r.params, e.Name)
	case *ast.SelectorExpr:
		from, ok := e.X.(*ast.Ident)
		if !ok {
			return false
		}
		of := imported(file, from.Name)
		return of == module+"/configs" && slices.Contains(r.params, e.Sel.Name) ||
			slices.ContainsFunc(ofKinds, func(p string) bool { return of == p || strings.HasSuffix(p, "/") && strings.HasPrefix(of, p) })
	}
	return false
}

// imported returns the path of the package that a file calls by a name; "": none.
func imported(file *ast.File, name string) string {
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err == nil && (i.Name != nil && i.Name.Name == name || i.Name == nil && filepath.Base(path) == name) {
			return path
		}
	}
	return ""
}

// asserts tells whether a generic function, by its name, asserts the type that it is given.
func asserts(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name == "As"
	case *ast.SelectorExpr:
		return f.Sel.Name == "As" || f.Sel.Name == "TypeFor"
	}
	return false
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
	strict := rulesOfKinds()
	files := token.NewFileSet()
	looked, explain := 0, map[string]bool{}
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
			rules := strict
			if slices.Contains(mayExplainKinds, relative) {
				explain[relative] = len(strict.names(files, file)) > 0
				rules.mention = nil
			}
			for _, text := range rules.names(files, file) {
				t.Error(text)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range mayExplainKinds {
		if !explain[name] {
			t.Errorf("%s explains no kind, and need not be listed", name)
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
import (
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/timed"
	alias "github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/bloom"
	"bloom"
)
func f(s spec) {
	if s.Kind == "bloom" {}
	if "other" != s.Kind {}
	switch s.Kind { case "other": }
	const c = "timing"
	if s.Kind == "" || s.Kind == t.Kind || s.Kind != yaml.Node {}
	log("timing a thing")
	log("filters of the kinds bloom and others can")
	_, ok := s.Params.(configs.Bloom)
	switch v := s.Set.(type) {
	case error, *mine.Set:
	case *alias.Memory:
	}
	x := engine.As[timed.Set](s)
	y := z.(engine.BitMap)
	type tagged struct { A int ` + "`of:\"kind bloom\"`" + ` }
}`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := kindRules{[]string{"bloom", "timing"}, []string{"Bloom"}, regexp.MustCompile("kinds? bloom")}.names(files, file)
	want := []string{
		"x.go:9:5: compares a kind with a name", "x.go:9:15: names the kind bloom", "x.go:10:5: compares a kind with a name",
		"x.go:11:2: switches on a kind", "x.go:12:12: names the kind timing", "x.go:15:6: tells of the kinds bloom",
		"x.go:16:11: asserts a type of a kind", "x.go:19:2: switches on a type of a kind", "x.go:21:7: asks for a type of a kind",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
