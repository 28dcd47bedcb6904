package daemon_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cr-clawer/urifilter"

// rule says what the packages under a folder may import. Folders are relative to
// the module; "a" covers a and all below it. If several rules cover a package, all
// of them must be kept.
type rule struct {
	folder string
	// except are folders below it that the rule does not cover.
	except []string
	// ours, when not nil, are the folders of this module that may be imported, besides folder itself.
	ours []string
	// testsToo says whether ours applies to tests as well, which otherwise may use any
	// room to test their own.
	testsToo bool
	// never are folders of this module that must not be reached, even through others.
	never []string
	// by, when not nil, are the only folders of this module, besides folder itself, that may import
	// folder and what is below it; tests may.
	by []string
	// onlyModules, when not nil, are the packages of other modules that may be
	// imported, by path; tests may import others, to compare.
	onlyModules []string
}

// importing is one import in one file, for any platform.
type importing struct {
	file string // relative to the root
	path string // what is imported
	test bool   // whether the file is a test
}

func (i importing) from() string { return path.Dir(i.file) }

// ours returns the folder of this module that is imported.
func (i importing) ours() (string, bool) {
	if i.path == module {
		return ".", true
	}
	return strings.CutPrefix(i.path, module+"/")
}

// walkGo visits every Go file of the module under root, with its path relative to root.
func walkGo(root string, visit func(name, relative string) error) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "dist") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != root {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return visit(name, filepath.ToSlash(relative))
	})
}

// readImports parses the imports of every Go file under root, whatever its build
// constraints.
func readImports(root string) ([]importing, error) {
	var all []importing
	err := walkGo(root, func(name, relative string) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all = append(all, importing{relative, p, strings.HasSuffix(name, "_test.go")})
		}
		return nil
	})
	return all, err
}

// violations lists what breaks the rules, in the order of the imports.
func violations(rules []rule, imports []importing) []string {
	var found []string
	folders := byFolder(imports)
	for _, i := range imports {
		folder, isOurs := i.ours()
		for _, r := range rules {
			if isOurs && !i.test && under(folder, r.folder) && r.by != nil && !under(i.from(), r.folder) && !underAny(i.from(), r.by) {
				found = append(found, fmt.Sprintf("%s imports %s: only %s may", i.file, folder, listed(r.by)))
			}
			if !under(i.from(), r.folder) || underAny(i.from(), r.except) {
				continue
			}
			switch {
			case isOurs && r.ours != nil && (r.testsToo || !i.test) && !under(folder, r.folder) && !underAny(folder, r.ours):
				found = append(found, fmt.Sprintf("%s imports %s: of this module %s may import %s", i.file, folder, r.folder, listed(r.ours)))
			case isOurs && !i.test:
				if way := reaches(folder, r.never, folders, map[string]bool{}); way != nil {
					found = append(found, fmt.Sprintf("%s imports %s: %s must not reach it", i.file, strings.Join(way, ", which imports "), r.folder))
				}
			case !isOurs && !i.test && r.onlyModules != nil && !isStd(i.path) && !underAny(i.path, r.onlyModules):
				found = append(found, fmt.Sprintf("%s imports %s: beside the standard library %s may import %s", i.file, i.path, r.folder, listed(r.onlyModules)))
			}
		}
	}
	return found
}

// guardNothing lists the folders that rules name, as guarded or as allowed, but that have
// no Go file: a room that is renamed would lose its rule.
func guardNothing(rules []rule, imports []importing) []string {
	var empty []string
	for _, r := range rules {
		for _, folder := range slices.Concat([]string{r.folder}, r.ours, r.never, r.by) {
			if !slices.ContainsFunc(imports, func(i importing) bool { return under(i.from(), folder) }) && !slices.Contains(empty, folder) {
				empty = append(empty, folder)
			}
		}
	}
	return empty
}

// reaches returns the chain of packages from folder to one of never, or nil if none exists.
// Folders in seen are skipped: they do not reach one.
func reaches(folder string, never []string, imports map[string][]string, seen map[string]bool) []string {
	if underAny(folder, never) {
		return []string{folder}
	}
	if seen[folder] {
		return nil
	}
	seen[folder] = true
	for _, next := range imports[folder] {
		if way := reaches(next, never, imports, seen); way != nil {
			return append([]string{folder}, way...)
		}
	}
	return nil
}

// byFolder lists, for each folder, the folders of this module that its files import, without tests.
func byFolder(imports []importing) map[string][]string {
	folders := map[string][]string{}
	for _, i := range imports {
		if next, isOurs := i.ours(); isOurs && !i.test && !slices.Contains(folders[i.from()], next) {
			folders[i.from()] = append(folders[i.from()], next)
		}
	}
	return folders
}

func under(folder, top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") }

func underAny(folder string, tops []string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return under(folder, top) })
}

func isStd(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func TestImportRules(t *testing.T) {
	imports, err := readImports("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) < 50 {
		t.Fatalf("only %d imports found: the walk looks at the wrong place", len(imports))
	}
	for _, folder := range guardNothing(rules(), imports) {
		t.Errorf("the rule for %s guards nothing: no Go file is under it", folder)
	}
	for _, v := range violations(rules(), imports) {
		t.Error(v)
	}
}

// The guide names files that are there, and each room says what it is for.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:[a-z]+/)+[a-z_]+\\.go)`|\\(\\.\\./([a-z/]+doc\\.go)\\)").FindAllStringSubmatch(string(guide), -1)
	if len(named) < 40 {
		t.Fatalf("only %d files found in the guide", len(named))
	}
	for _, name := range named {
		found := false
		for _, root := range []string{"..", "internal"} {
			_, err := os.Stat(filepath.Join(root, name[1]+name[2]))
			found = found || err == nil
		}
		if !found {
			t.Errorf("the guide names %s, which is not there", name[1]+name[2])
		}
	}
	rooms, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range rooms {
		text, err := os.ReadFile(filepath.Join("internal", room.Name(), "doc.go"))
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(string(text), "\n"); n > 101 {
			t.Errorf("%s/doc.go has %d lines, want 100 at most", room.Name(), n)
		}
	}
}

// TestImportRulesBite breaks each rule once, in a made-up tree.
func TestImportRulesBite(t *testing.T) {
	root := t.TempDir()
	for name, imports := range map[string][]string{
		"magefiles/targets.go":                       {"fmt", module + "/provision", module + "/configs", module + "/daemon/urifilter"},
		"provision/host.go":                          {module + "/systemd", module + "/configs", module + "/client"},
		"daemon/urifilter/main.go":                   {module + "/daemon/internal/front/http", module + "/client", module + "/magefiles"},
		"daemon/internal/front/http/api.go":          {module + "/daemon/internal/filter/engine", module + "/daemon/internal/store/redis", module + "/provision"},
		"daemon/internal/filter/engine/e.go":         {module + "/daemon/internal/filter/bloom", module + "/daemon/internal/disk"},
		"daemon/internal/store/redis/s.go":           {module + "/daemon/internal/front/http", module + "/daemon/internal/testkit/storetest"},
		"daemon/internal/store/redis/s_test.go":      {module + "/daemon/internal/testkit/storetest"},
		"daemon/internal/testkit/storetest/suite.go": {module + "/daemon/internal/store/redis"},
		"daemon/urifilter/internal/processtest/p.go": {module + "/daemon/internal/testkit/storetest"},
		"daemon/internal/filter/bloom/b.go":          {"math/bits", "github.com/zeebo/xxh3", "golang.org/x/sys/cpu", "golang.org/x/system", module + "/daemon/internal/store"},
		"daemon/internal/filter/bloom/b_test.go":     {"github.com/bits-and-blooms/bloom/v3"},
		"daemon/internal/download/script/jail/j.go":  {module + "/daemon/internal/disk"},
		"client/client.go":                           {"net/http", "github.com/spf13/cobra", module + "/configs"},
		"client/clienttest/server.go":                {module + "/client"},
		"configs/config.go":                          {"os", "go.yaml.in/yaml/v4", module + "/client"},
		"systemd/unit.go":                            {module + "/configs"},
		"systemd/testdata/x.go":                      {module + "/daemon/urifilter"},
		"systemd/unit_windows_test.go":               {module + "/provision"},
	} {
		var text strings.Builder
		text.WriteString("//go:build never\n\npackage x\n\n")
		for _, p := range imports {
			fmt.Fprintf(&text, "import _ %q\n", p)
		}
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imports, err := readImports(root)
	if err != nil {
		t.Fatal(err)
	}
	got := violations(rules(), imports)
	want := []string{
		"client/client.go imports github.com/spf13/cobra: beside the standard library client may import nothing",
		"client/client.go imports configs: of this module client may import nothing",
		"configs/config.go imports client: of this module configs may import nothing",
		"daemon/internal/download/script/jail/j.go imports daemon/internal/disk: of this module daemon/internal/download/script/jail may import nothing",
		"daemon/internal/filter/bloom/b.go imports golang.org/x/system: beside the standard library daemon/internal/filter/bloom may import github.com/zeebo/xxh3, golang.org/x/sys",
		"daemon/internal/filter/bloom/b.go imports daemon/internal/store: of this module daemon/internal/filter may import daemon/internal/disk, configs",
		"daemon/internal/front/http/api.go imports daemon/internal/store/redis: of this module daemon/internal/front may import daemon/internal/archive, daemon/internal/filter, daemon/internal/program, configs, client",
		"daemon/internal/front/http/api.go imports provision: of this module daemon/internal/front may import daemon/internal/archive, daemon/internal/filter, daemon/internal/program, configs, client",
		"daemon/internal/front/http/api.go imports provision: of this module daemon may import configs, client, systemd",
		"daemon/internal/store/redis/s.go imports daemon/internal/front/http: of this module daemon/internal/store may import daemon/internal/filter, daemon/internal/program, daemon/internal/disk, configs",
		"daemon/internal/store/redis/s.go imports daemon/internal/testkit/storetest: of this module daemon/internal/store may import daemon/internal/filter, daemon/internal/program, daemon/internal/disk, configs",
		"daemon/internal/store/redis/s.go imports daemon/internal/testkit/storetest: only daemon/bench, daemon/urifilter/internal/commandtest, daemon/urifilter/internal/processtest may",
		"daemon/urifilter/main.go imports daemon/internal/front/http, which imports provision: daemon must not reach it",
		"daemon/urifilter/main.go imports magefiles: of this module daemon may import configs, client, systemd",
		"magefiles/targets.go imports daemon/urifilter: of this module magefiles may import provision, configs, systemd",
		"provision/host.go imports client: of this module provision may import systemd, configs",
		"systemd/unit.go imports configs: of this module systemd may import nothing",
		"systemd/unit_windows_test.go imports provision: of this module systemd may import nothing",
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not found: %s", w)
		}
	}
	for _, g := range got {
		// A chain may be reported for each package that it begins in.
		if !slices.Contains(want, g) && !strings.Contains(g, "must not reach it") {
			t.Errorf("found, but allowed: %s", g)
		}
	}
	empty := guardNothing(rules(), imports)
	if !slices.Contains(empty, "daemon/internal/crawl") || slices.Contains(empty, "daemon/internal/front") {
		t.Errorf("folders without a Go file: got %v, want daemon/internal/crawl among them, and not daemon/internal/front", empty)
	}
}
