package download

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestReasonWord(t *testing.T) {
	for reason, want := range map[string]string{
		"timeout: http://a/: nothing for 30s": "timeout", "http_2": "http_2", "dns": "dns", Abandoned("vm:1:A", 1): "abandoned", Abandoned("a: b", MaxAbandoned): "abandoned",
		"worker vm:12423:P5CG3KAB did not renew its lease: it stopped, or could not reach the store": "abandoned", "": "other", "it went wrong: badly": "other",
		"\x1b[2J: x": "other", "Timeout: x": "other",
	} {
		if got := ReasonWord(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}

// TestReasonsHaveWords: each reason that is written in the code of the downloader begins with a word, by which
// attempts are counted.
func TestReasonsHaveWords(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "downloadtest") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if key, is := pairKey(pair, ok); !is || key != "Reason" {
				return true
			}
			found++
			if text, known := leading(pair.Value); known && ReasonWord(text) == "other" {
				t.Errorf("%s: the reason %q begins with no word and a colon", path, text)
			}
			return true
		})
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d reasons, %v", found, err)
	}
}

func pairKey(pair *ast.KeyValueExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	key, is := pair.Key.(*ast.Ident)
	if !is {
		return "", false
	}
	return key.Name, true
}

// leading is the text that an expression begins with; false: it is not in the code.
func leading(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		return leading(e.X)
	case *ast.CallExpr:
		if of, is := e.Fun.(*ast.SelectorExpr); is && strings.HasPrefix(of.Sel.Name, "Sprint") {
			return leading(e.Args[0])
		}
	}
	return "", false
}
