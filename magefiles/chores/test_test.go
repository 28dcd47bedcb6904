package chores

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The two targets run each test of the module once, and each ends with its count.
func TestTestsAreDividedOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module made.up\n\ngo 1.26.0\n",
		"client/a_test.go":     "package a\n\nimport \"testing\"\n\nfunc TestA(*testing.T) { done := make(chan int); go close(done); <-done }\n\nfunc TestSystemA(t *testing.T) { t.Error(\"no moon\") }\n",
		"plain/b_test.go":      "package b\n\nimport \"testing\"\n\nfunc TestB(*testing.T) {}\n\nfunc TestC(t *testing.T) { t.Skip() }\n",
		"other/go.mod":         "module other\n",
		"other/c_test.go":      "package c\n\nimport \"testing\"\n\nfunc TestSystemOfOthers(*testing.T) {}\n",
		"testdata/c_test.go":   "package c\n\nfunc TestSystem() {}\n",
		"client/quick/code.go": "package quick\n\nimport _ \"sync\"\n",
		"client/pure/code.go":  "package pure\n\n// It goes alone.\nvar A = 1\n",
		"client/b_test.go":     "package a\n\nimport \"testing\"\n\nfunc TestNoRaceB(*testing.T) {}\n",
		"plain/d_test.go":      "package b\n\nimport \"testing\"\n\nfunc TestNoRaceD(*testing.T) {}\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	r := Repo{Dir: dir, Out: &out, total: &total{}}
	plain, race, err := r.testPackages(t.Context())
	if err != nil || !slices.Equal(plain, []string{"made.up/client/pure", "made.up/plain"}) || !slices.Equal(race, []string{"made.up/client", "made.up/client/quick"}) {
		t.Errorf("got %q and, under the race detector, %q, %v", plain, race, err)
	}
	system, err := packagesWith(dir, prefixed(systemPrefix))
	if err != nil || !slices.Equal(system, []string{"./client"}) {
		t.Errorf("system tests in %q, %v", system, err)
	}
	tests, noRace, raced, err := r.goTests(t.Context(), TestOptions{}, false)
	if err != nil {
		t.Fatal(err)
	}
	systemTests := step{name: "system", do: func(r Repo, ctx context.Context) error {
		return r.goTest(ctx, TestOptions{}, nil, "-run=^"+systemPrefix, "./client")
	}}
	err = r.counted(t.Context(), "test", []step{tests, noRace, raced, systemTests})
	if err == nil || !strings.Contains(out.String(), "\ntotal of test: 4 passed, 1 failed, 1 skipped; broken: made.up/client, in ") {
		t.Errorf("%v; got:\n%s", err, &out)
	}
	// A choice by name selects from all tests.
	r.total = &total{}
	chosen := TestOptions{Run: "B", Short: true}
	if tests, _, raced, err = r.goTests(t.Context(), chosen, false); err != nil {
		t.Fatal(err)
	}
	if err := r.counted(t.Context(), "test", []step{tests, raced}); err != nil || r.total.passed != 2 {
		t.Errorf("%v; %d passed, want TestB and TestNoRaceB", err, r.total.passed)
	}
	r.total = &total{}
	if err := r.counted(t.Context(), "test", nil); err == nil {
		t.Error("no test: no error")
	}
	if err := r.counted(t.Context(), "test", []step{{name: "lost", do: func(Repo, context.Context) error { return errors.New("lost") }}}); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("a step that fails: %v", err)
	}
}

func TestLongestFirst(t *testing.T) {
	if got := longestFirst(longPackages, []string{"m/a", "m/http", "m/b", "m/redis"}); !slices.Equal(got, []string{"m/redis", "m/http", "m/a", "m/b"}) {
		t.Errorf("got %q", got)
	}
	plain, race, err := (Repo{Dir: filepath.Join("..", ".."), Out: t.Output()}).testPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	noRace, err := (Repo{Dir: filepath.Join("..", "..")}).having(prefixed(noRacePrefix), race)
	if err != nil {
		t.Fatal(err)
	}
	for _, pass := range []struct {
		name           string
		long, packages []string
	}{{"under the race detector", longPackages, race}, {"in the plain pass", longPlainPackages, plain}, {"in the pass of " + noRacePrefix, longNoRacePackages, noRace}} {
		for _, name := range pass.long {
			if !slices.ContainsFunc(pass.packages, func(p string) bool { return path.Base(p) == name }) {
				t.Errorf("no package %s is tested %s", name, pass.name)
			}
		}
	}
	system, err := packagesWith(filepath.Join("..", ".."), prefixed(systemPrefix))
	if err != nil {
		t.Fatal(err)
	}
	var names []string // two packages may share a name
	for _, p := range longestFirst(longSystemPackages, system) {
		names = append(names, path.Base(p))
	}
	if names = slices.Compact(names); !slices.Equal(names[:len(longSystemPackages)], longSystemPackages) {
		t.Errorf("the system tests begin with %q, want %q", names, longSystemPackages)
	}
}

func TestSlowest(t *testing.T) {
	r, _ := reported(t,
		`{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":9}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":9.5}`,
		`{"Action":"fail","Package":"q","Test":"TestB","Elapsed":61}`,
		`{"Action":"pass","Package":"q","Test":"TestC","Elapsed":0.4}`,
	)
	all := &total{}
	all.add(r)
	if got, want := all.slowest(5), "== the slowest tests\n   61.0s\tq TestB\n    9.5s\tp TestA\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := all.slowest(1); strings.Contains(got, "TestA") {
		t.Errorf("more than one: %q", got)
	}
}

// Only packages with a test that is to run are built.
func TestChosenPackages(t *testing.T) {
	r := Repo{Dir: filepath.Join("..", ".."), Out: t.Output()}
	plain, raced, err := r.testPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names, err := chosen("^TestChosenPackages$/x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.having(names, append(plain, raced...)); err != nil || len(got) != 1 || !strings.HasSuffix(got[0], "/magefiles/chores") {
		t.Errorf("of %d packages %v, %v", len(plain)+len(raced), got, err)
	}
	if _, err := chosen("("); err == nil {
		t.Error("a name that is no expression is taken")
	}
	// Without its system tests a package may have nothing but a TestMain.
	for name, want := range map[string]int{"/provision/e2e": 0, "/magefiles/chores": 1} {
		i := slices.IndexFunc(append(plain, raced...), func(p string) bool { return strings.HasSuffix(p, name) })
		if got, err := r.having(allBut("^"+systemPrefix), append(plain, raced...)[i:i+1]); err != nil || len(got) != want {
			t.Errorf("%s: kept %q, %v", name, got, err)
		}
	}
}

// Where .ci/run compiles the targets with other flags than the tests, CI compiles all packages twice.
func TestCICompilesAsTests(t *testing.T) {
	t.Setenv("GOFLAGS", "")
	text, err := os.ReadFile(filepath.Join("..", "..", ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range asReleased() {
		if name, value, _ := strings.Cut(setting, "="); !strings.Contains(string(text), name+"=") || !strings.Contains(string(text), value) {
			t.Errorf(".ci/run does not set %s", setting)
		}
	}
}
