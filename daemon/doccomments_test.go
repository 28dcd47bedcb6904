package daemon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// A comment that begins with a name begins with the name of what it describes, and not with one
// that this had before. A word is a name if it begins small, or has a capital further on.
func TestDocCommentsNameWhatTheyDescribe(t *testing.T) {
	t.Parallel()
	files, looked := token.NewFileSet(), 0
	begins := regexp.MustCompile(`^([a-z]\w*|[A-Z]+[a-z]+[A-Z]\w*)\b`)
	check := func(pos token.Pos, name string, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			word := begins.FindString(doc.Text())
			if word != "" && word != name && !strings.HasPrefix(name, "Test") {
				t.Errorf("%s: the comment of %s begins with %s", files.Position(pos), name, word)
			}
			if doc != nil {
				looked++
			}
		}
	}
	err := walkGo("..", func(path, _ string) error {
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Pos(), d.Name.Name, d.Doc)
			case *ast.GenDecl:
				if d.Lparen.IsValid() {
					d.Doc = nil // of the group
				}
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						check(s.Pos(), s.Name.Name, s.Doc, d.Doc)
					case *ast.ValueSpec:
						check(s.Pos(), s.Names[0].Name, s.Doc, d.Doc)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 5000 {
		t.Errorf("%d comments were found", looked)
	}
}
