package daemon_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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
	// ours are the folders of this module that may be imported, besides folder itself.
	ours []string
	// testsToo says whether ours applies to tests as well, which otherwise may use any
	// room to test their own.
	testsToo bool
	// never are folders of this module that must not be reached, even through others.
	never []string
	// onlyModules, when not nil, are the packages of other modules that may be
	// imported, by path; tests may import others, to compare.
	onlyModules []string
}

// rules are the import rules of the repository.
func rules() []rule {
	in := func(names ...string) []string { // folders of daemon/internal
		folders := []string{}
		for _, name := range names {
			folders = append(folders, "daemon/internal/"+name)
		}
		return folders
	}
	room := func(name string, ours ...string) rule {
		return rule{folder: "daemon/internal/" + name, ours: in(ours...)}
	}
	commands := func(name string, own []string, ours ...string) rule { // a room of the program urifilter
		r := rule{folder: "daemon/urifilter/internal/" + name, ours: in(ours...)}
		for _, o := range own {
			r.ours = append(r.ours, "daemon/urifilter/internal/"+o)
		}
		return r
	}
	withSettings := func(r rule) rule { // a room that knows what filters are made with
		r.ours = append(r.ours, "configs")
		return r
	}
	asking := func(r rule) rule { // a room that calls a daemon
		r.ours = append(r.ours, "client")
		return r
	}
	api := room("api", "program/access", "program/gather", "program/problemdetail", "problem", "tally", "batch", "engine", "items", "backup", "archive", "sniff")
	api.ours = append(api.ours, "client", "configs")
	bitmap := room("bloom")
	bitmap.onlyModules = []string{"github.com/zeebo/xxh3", "golang.org/x/sys"}
	return []rule{
		{folder: "magefiles", ours: []string{"provision", "configs"}, testsToo: true},
		{folder: "provision", ours: []string{"systemd", "configs"}, testsToo: true, never: []string{"daemon"}},
		{folder: "daemon", ours: []string{"configs", "client", "systemd"}, testsToo: true, never: []string{"provision", "magefiles"}},
		{folder: "configs", ours: []string{}, testsToo: true},
		{folder: "configs/strict", ours: []string{}, testsToo: true},
		{folder: "configs/address", ours: []string{}, testsToo: true, onlyModules: []string{}},
		{folder: "systemd", ours: []string{}, testsToo: true, onlyModules: []string{}},
		{folder: "client", ours: []string{}, testsToo: true, onlyModules: []string{}},
		// What docs/architecture.md says about the rooms of the daemon: no arrow points back up.
		bitmap,
		room("poisson"),
		room("table", "bloom", "poisson"),
		room("timing", "table", "bloom", "poisson"),
		room("durable"),
		{folder: "daemon/internal/simhash", ours: in("poisson"), onlyModules: []string{"github.com/zeebo/xxh3"}},
		room("sniff"),
		room("journal", "bloom", "durable"),
		room("items", "bloom"),
		room("items/scan"),
		withSettings(room("canonical")),
		withSettings(room("engine", "bloom", "canonical")),
		room("kind", "engine", "durable", "timing", "bloom"),
		withSettings(room("kinds", "kind", "engine", "durable", "timing", "table", "bloom", "simhash", "poisson")),
		withSettings(room("embedded", "kinds", "kind", "engine", "journal", "durable", "timing", "bloom")),
		room("tlsdial"),
		withSettings(room("redisstore", "engine", "durable", "timing", "table", "bloom", "tlsdial")),
		room("redisstore/servers", "tlsdial"),
		room("redisstore/members", "durable"),
		room("redisstore/insync", "redisstore/members", "redisstore/servers", "engine"),
		withSettings(room("redisstore/registry", "redisstore/servers", "engine", "bloom")),
		room("redisstore/budget"),
		room("redisstore/filter", "redisstore/budget", "redisstore/insync", "redisstore/registry", "redisstore/members", "redisstore/servers", "engine"),
		room("redisstore/bitmap", "redisstore/budget", "redisstore/filter", "redisstore/insync", "redisstore/registry", "redisstore/servers", "engine", "bloom"),
		room("redisstore/forgotten", "redisstore/insync", "redisstore/servers", "bloom"),
		room("redisstore/leases", "redisstore/filter", "redisstore/forgotten", "redisstore/insync", "redisstore/servers", "engine", "bloom"),
		room("redisstore/itemset", "redisstore/filter", "redisstore/forgotten", "redisstore/leases", "redisstore/insync", "redisstore/registry", "redisstore/servers", "engine", "bloom"),
		room("redisstore/timed", "redisstore/itemset", "redisstore/filter", "redisstore/forgotten", "redisstore/registry", "redisstore/servers", "engine", "timing", "bloom"),
		room("redisstore/exact", "redisstore/itemset", "redisstore/budget", "redisstore/filter", "redisstore/forgotten", "redisstore/registry", "redisstore/servers", "engine", "table", "bloom"),
		room("stores", "engine", "bloom"),
		withSettings(room("mysqlstore", "mysqlstore/rowkey", "engine", "bloom", "tlsdial")),
		room("mysqlstore/rowkey", "bloom"),
		room("mongoconn", "tlsdial"),
		room("archive", "engine", "bloom", "mongoconn", "tlsdial"),
		room("backup", "engine", "archive", "bloom"),
		room("batch", "engine", "items", "bloom", "canonical"),
		room("tally", "batch", "engine"),
		room("problem", "batch", "engine", "items", "backup", "archive", "program/command", "program/problemdetail"),
		room("program/drain"),
		room("program/gather"),
		room("program/connlimit"),
		room("program/tlshint"),
		withSettings(asking(room("download", "fetch", "program", "durable", "mongoconn", "tlsdial", "embedded", "kinds", "engine", "batch", "items", "canonical", "bloom"))),
		withSettings(room("download/jobfile", "download", "download/script")),
		room("download/script", "download"),
		{folder: "daemon/internal/download/script/jail", ours: []string{}},
		{folder: "daemon/internal/download/script/wire", ours: []string{}, onlyModules: []string{}},
		{folder: "daemon/internal/download/scriptengine", ours: in("download", "fetch"), never: in("download/sqlite", "download/master", "download/dispatch")},
		{folder: "daemon/internal/download/browser/jail", ours: []string{}},
		{folder: "daemon/internal/download/browser/devtools", ours: []string{}, onlyModules: []string{}},
		room("download/browser/chromium", "download/browser/jail", "download/reexec"),
		room("download/reexec"),
		{folder: "daemon/internal/download/browserengine", ours: in("download", "fetch"), never: in("download/sqlite", "download/master", "download/dispatch")},
		room("download/sqlite", "download", "durable"),
		room("download/wake", "tlsdial"),
		room("download/mongodb", "download", "mongoconn", "tlsdial"),
		room("download/downloadtest", "download"),
		room("download/metered", "download"),
		room("download/errorreport"),
		room("download/campaign"),
		{folder: "daemon/internal/download/dispatch", ours: in("download"), never: in("download/sqlite", "download/mongodb")},
		{folder: "daemon/internal/download/worker", ours: in("download"), never: in("download/sqlite", "download/mongodb", "download/dispatch")},
		{folder: "daemon/internal/program", ours: []string{"systemd", "configs/address"}},
		room("powerloss", "durable"),
		room("crawl/graph"),
		withSettings(room("crawl/form", "crawl/charset", "fetch", "program/secret")),
		{folder: "daemon/internal/crawl/form/board", ours: []string{}},
		room("crawl/charset"),
		room("crawl/links", "fetch/uri"),
		room("crawl/pages", "fetch/uri", "durable"),
		withSettings(asking(rule{
			folder: "daemon/internal/crawl", ours: in("fetch", "canonical", "durable", "download/seen", "program"),
			never: in("download/worker", "download/dispatch", "download/master", "download/node", "download/sqlite", "download/mongodb"),
		})),
		room("crawl/crawltest", "crawl/graph", "crawl/pages"),
		room("crawl/frontier", "canonical", "durable"),
		{folder: "daemon/internal/crawl/warc", ours: in("durable"), onlyModules: []string{}},
		{folder: "daemon/uridownloader/internal/form", ours: in("crawl/form", "fetch", "program")},
		{folder: "daemon/uridownloader/internal/graph", ours: in("crawl/graph", "durable", "program")},
		room("fetch", "durable"), // durable for fetch/cookies, which saves them
		room("fetch/cookies", "durable"),
		room("fetch/guard"),
		room("fetch/uri"),
		room("fetch/body"),
		room("fetch/socks"),
		room("fetch/proxies"),
		room("fetch/robots"),
		api,
		room("program/access", "program/problemdetail"),
		room("api/budget"),
		room("api/coding"),
		{folder: "daemon/internal/api/filterjson", ours: append(in("problem", "engine", "items"), "client", "configs")},
		room("api/media", "problem", "sniff"),
		room("api/pace"),
		room("api/spool", "api/budget"),
		withSettings(asking(room("apitest", "api", "embedded", "kinds", "kind", "engine", "archive", "backup", "timing", "bloom"))),
		// The commands: their rooms know each other only through what they share.
		commands("settings", nil, "program"),
		withSettings(asking(commands("connection", nil, "problem", "program"))),
		asking(commands("commandtest", []string{"connection"}, "program")),
		asking(commands("processtest", nil, "mysqltest", "testserver", "bloom")),
		asking(commands("filter", []string{"connection"}, "sniff", "items", "program")), // items for the codes that say what is wrong with an item
		asking(commands("near", []string{"connection"}, "program")),
		withSettings(asking(commands("filters", []string{"connection"}, "program"))),
		withSettings(room("lab/sizing", "kinds", "kind", "engine", "redisstore/footprint", "durable", "timing", "bloom")),
		withSettings(room("redisstore/footprint", "redisstore/budget")),
		{folder: "daemon/internal/lab/share", ours: []string{}, onlyModules: []string{}},
		room("lab/rates", "lab/share", "bloom"),
		{folder: "daemon/internal/lab/hashes", ours: in("lab/share", "lab/plot"), onlyModules: []string{"github.com/twmb/murmur3", "github.com/zeebo/xxh3"}},
		{folder: "daemon/internal/lab/plot", ours: []string{}, onlyModules: []string{"golang.org/x/image"}},
		{folder: "daemon/internal/lab/load", ours: []string{}, onlyModules: []string{"github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/sys"}},
		{folder: "daemon/internal/lab/load/lean", ours: []string{}, onlyModules: []string{}},
		asking(commands("bench", []string{"connection"}, "lab", "bloom", "items", "problem", "program")), // items for the codes that say what is wrong with a batch
		withSettings(commands("size", nil, "lab/sizing", "kind", "program")),
		withSettings(commands("mysql", []string{"settings"}, "mysqlstore", "server", "program")),
		withSettings(asking(commands("bitmap", []string{"connection", "settings"}, "server", "api/filterjson", "problem", "backup", "archive", "engine", "durable", "program"))),
	}
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
		for _, r := range rules {
			if !under(i.from(), r.folder) {
				continue
			}
			folder, isOurs := i.ours()
			switch {
			case isOurs && (r.testsToo || !i.test) && !under(folder, r.folder) && !underAny(folder, r.ours):
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
		for _, folder := range slices.Concat([]string{r.folder}, r.ours, r.never) {
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

// Bounds for a folder of Go files, so that a newcomer finds things in it.
const (
	mostFiles = 28   // tests included
	mostLines = 2500 // without tests
)

// TestFoldersStaySmall: a folder that grows past the bounds contains more than one idea, and
// must be split by idea.
func TestFoldersStaySmall(t *testing.T) {
	t.Parallel()
	files, lines := map[string]int{}, map[string]int{}
	err := walkGo("..", func(name, relative string) error {
		folder := path.Dir(relative)
		if files[folder]++; strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		lines[folder] += strings.Count(string(text), "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d folders found: the walk looks at the wrong place", len(files))
	}
	for folder, n := range files {
		if n > mostFiles {
			t.Errorf("%s has %d Go files, want %d at most", folder, n, mostFiles)
		}
		if lines[folder] > mostLines {
			t.Errorf("%s has %d lines without tests, want %d at most", folder, lines[folder], mostLines)
		}
	}
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

// TestImportRulesBite breaks each rule once, in a made-up tree.
func TestImportRulesBite(t *testing.T) {
	root := t.TempDir()
	for name, imports := range map[string][]string{
		"magefiles/targets.go":                 {"fmt", module + "/provision", module + "/configs", module + "/daemon/urifilter"},
		"provision/host.go":                    {module + "/systemd", module + "/configs", module + "/client"},
		"daemon/urifilter/main.go":             {module + "/daemon/internal/api", module + "/client", module + "/magefiles"},
		"daemon/internal/api/api.go":           {module + "/daemon/internal/engine", module + "/provision"},
		"daemon/internal/engine/e.go":          {module + "/daemon/internal/middle"},
		"daemon/internal/middle/m.go":          {module + "/daemon/internal/api", module + "/daemon/internal/engine"},
		"daemon/internal/embedded/s.go":        {module + "/daemon/internal/bloom", module + "/daemon/internal/engine"},
		"daemon/internal/redisstore/s.go":      {module + "/daemon/internal/api"},
		"daemon/internal/redisstore/s_test.go": {module + "/daemon/internal/embedded"},
		"daemon/internal/bloom/b.go":           {"math/bits", "github.com/zeebo/xxh3", "golang.org/x/sys/cpu", "golang.org/x/system", module + "/configs"},
		"daemon/internal/bloom/b_test.go":      {"github.com/bits-and-blooms/bloom/v3"},
		"client/client.go":                     {"net/http", "github.com/spf13/cobra", module + "/configs"},
		"client/clienttest/server.go":          {module + "/client"},
		"configs/config.go":                    {"os", "go.yaml.in/yaml/v4", module + "/client"},
		"systemd/unit.go":                      {module + "/configs"},
		"systemd/testdata/x.go":                {module + "/daemon/urifilter"},
		"systemd/unit_windows_test.go":         {module + "/provision"},
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
		"daemon/internal/api/api.go imports provision: of this module daemon/internal/api may import daemon/internal/program/access, daemon/internal/program/gather, daemon/internal/program/problemdetail, daemon/internal/problem, daemon/internal/tally, daemon/internal/batch, daemon/internal/engine, daemon/internal/items, daemon/internal/backup, daemon/internal/archive, daemon/internal/sniff, client, configs",
		"daemon/internal/api/api.go imports provision: of this module daemon may import configs, client, systemd",
		"daemon/internal/bloom/b.go imports golang.org/x/system: beside the standard library daemon/internal/bloom may import github.com/zeebo/xxh3, golang.org/x/sys",
		"daemon/internal/bloom/b.go imports configs: of this module daemon/internal/bloom may import nothing",
		"daemon/internal/engine/e.go imports daemon/internal/middle: of this module daemon/internal/engine may import daemon/internal/bloom, daemon/internal/canonical, configs",
		"daemon/internal/redisstore/s.go imports daemon/internal/api: of this module daemon/internal/redisstore may import daemon/internal/engine, daemon/internal/durable, daemon/internal/timing, daemon/internal/table, daemon/internal/bloom, daemon/internal/tlsdial, configs",
		"daemon/urifilter/main.go imports daemon/internal/api, which imports provision: daemon must not reach it",
		"daemon/urifilter/main.go imports magefiles: of this module daemon may import configs, client, systemd",
		"magefiles/targets.go imports daemon/urifilter: of this module magefiles may import provision, configs",
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
	if !slices.Contains(empty, "daemon/internal/journal") || slices.Contains(empty, "daemon/internal/api") {
		t.Errorf("folders without a Go file: got %v, want daemon/internal/journal among them, and not daemon/internal/api", empty)
	}
}
