package provision

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noImports imports nothing.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) { return nil, errors.New(path) }

// The files of this package call each other in one direction: no file calls functions of one that
// calls, directly or through others, its own.
func TestFilesCallOneWay(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	// The imports need not be known: what this package declares is resolved without them.
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Error: func(error) {}, Importer: noImports{}}
	pkg, _ := check.Check("provision", fset, files, &info)
	calls := map[string]map[string]bool{} // by file: the files that it calls
	for used, object := range info.Uses {
		if _, is := object.(*types.Func); !is || object.Pkg() != pkg {
			continue
		}
		from, to := fset.Position(used.Pos()).Filename, fset.Position(object.Pos()).Filename
		if from == to {
			continue
		}
		if calls[from] == nil {
			calls[from] = map[string]bool{}
		}
		calls[from][to] = true
	}
	if !calls["deploy.go"]["run.go"] || !calls["toolkit.go"]["options.go"] {
		t.Fatalf("calls are not seen: %v", calls)
	}
	var path []string
	done := map[string]bool{}
	var follow func(file string)
	follow = func(file string) {
		if at := slices.Index(path, file); at >= 0 {
			t.Errorf("these files call each other in a circle: %s", strings.Join(append(path[at:], file), " -> "))
			return
		}
		if done[file] {
			return
		}
		path = append(path, file)
		for _, to := range slices.Sorted(maps.Keys(calls[file])) {
			follow(to)
		}
		path, done[file] = path[:len(path)-1], true
	}
	for _, file := range slices.Sorted(maps.Keys(calls)) {
		follow(file)
	}
}
