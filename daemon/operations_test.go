package daemon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// manuals are the manuals that name targets.
var manuals = []string{"README.md", "docs/operations.md", "docs/sandbox.md"}

// The messages that the manual quotes under "When a target fails" are what people search for
// with the message in front of them, so the sources must contain exactly these words.
func TestQuotedMessagesAreInTheSources(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "\n## When a target fails\n")
	if !ok {
		t.Fatal("docs/operations.md has no part \"When a target fails\"")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(part, -1)
	if len(quoted) < 10 {
		t.Fatalf("%d messages are quoted, want 10 or more: has the table another form?", len(quoted))
	}
	sources := sourceText(t, "../provision", "../magefiles", "../daemon", "../client", "../configs")
	for _, q := range quoted {
		if !strings.Contains(sources, q[1]) {
			t.Errorf("docs/operations.md quotes %q, which no Go file has", q[1])
		}
	}
}

// sourceText is the text of all Go files in the folders, except tests.
func sourceText(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(name string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			all.Write(text)
			all.WriteByte('\n')
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// Each mage call in the manuals must be one that mage accepts: its target and its flags.
func TestTargetsOfTheManualsExist(t *testing.T) {
	t.Parallel()
	targets := readTargets(t)
	named := regexp.MustCompile("`([a-z]+:[a-zA-Z]+)[` ]")
	called := regexp.MustCompile("go tool mage ([a-zA-Z_]+(?::[a-zA-Z]+)?)([^`#\n]*)")
	flag := regexp.MustCompile(` -([a-zA-Z]+)`)
	for _, manual := range manuals {
		text, err := os.ReadFile(filepath.Join("..", manual))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, ok := targets[strings.ToLower(m[1])]; !ok {
				t.Errorf("%s names %s, which is no target", manual, m[1])
			}
		}
		for _, m := range called.FindAllStringSubmatch(string(text), -1) {
			seen++
			flags, ok := targets[strings.ToLower(m[1])]
			if !ok {
				t.Errorf("%s calls %s, which is no target", manual, m[1])
				continue
			}
			for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
				if !flags[f[1]] {
					t.Errorf("%s calls %s with -%s, which it does not take", manual, m[1], f[1])
				}
			}
		}
		if seen == 0 {
			t.Errorf("%s names no target", manual)
		}
	}
}

// readTargets returns the targets of magefiles, in lower case as mage compares them, and the
// flags that each accepts. The old names, which are aliases, are included.
func readTargets(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../magefiles/*.go")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]map[string]bool{}
	aliases := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Comments == nil || !strings.HasPrefix(file.Comments[0].List[0].Text, "//go:build mage") {
			continue // a file that mage itself writes while it runs
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
				target := strings.ToLower(f.Name.Name)
				if f.Recv != nil {
					target = strings.ToLower(f.Recv.List[0].Type.(*ast.Ident).Name) + ":" + target
				}
				targets[target] = flagsOf(f)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, isText := pair.Key.(*ast.BasicLit)
			method, isMethod := pair.Value.(*ast.SelectorExpr)
			if function, ok := pair.Value.(*ast.Ident); ok && isText {
				aliases[strings.Trim(key.Value, `"`)] = strings.ToLower(function.Name)
			}
			if isText && isMethod {
				aliases[strings.Trim(key.Value, `"`)] = strings.ToLower(method.X.(*ast.Ident).Name + ":" + method.Sel.Name)
			}
			return true
		})
	}
	for alias, target := range aliases {
		targets[alias] = targets[target]
	}
	if len(targets) < 40 {
		t.Fatalf("%d targets are found, want 40 or more", len(targets))
	}
	return targets
}

// flagsOf returns the optional arguments of a target: those that are pointers.
func flagsOf(f *ast.FuncDecl) map[string]bool {
	flags := map[string]bool{}
	for _, field := range f.Type.Params.List {
		if _, ok := field.Type.(*ast.StarExpr); ok {
			for _, name := range field.Names {
				flags[name.Name] = true
			}
		}
	}
	return flags
}
