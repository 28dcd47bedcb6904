package chores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// TestOptions select tests. The zero value means all of them, in full.
type TestOptions struct {
	Run   string // only Go tests whose names match, as with go test -run; "": all
	Short bool   // leave out or shorten what takes long, as with go test -short
}

// systemPrefix begins the name of each test that boots hosts, or kills and restarts processes
// for minutes. TestSystem runs such tests, Test all others.
const systemPrefix = "TestSystem"

// campaignPrefix begins the name of each test that a target of its own runs, with flags: without
// these there is nothing to do.
const campaignPrefix = "TestCampaign"

// noRacePrefix begins the name of each test that goes through many cases one after the other, or
// uses many items where others use few. Under the race detector they take ten times as long and
// reveal nothing more: other tests of their packages run the same code under it.
const noRacePrefix = "TestNoRace"

// Test runs gofmt, go vet and all tests of both languages but the system tests: each
// once, under the race detector where goroutines share memory. With o.Run it runs Go tests alone.
func (r Repo) Test(ctx context.Context, o TestOptions) error {
	race, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	tests, noRaceTests, raceTests, err := r.goTests(ctx, o, race)
	if err != nil {
		return err
	}
	r.env, r.total = asReleased(), &total{}
	if o.Run != "" {
		return r.counted(ctx, "test", []step{tests, raceTests})
	}
	// The tests of crawls wait most of the time, and therefore run beside all others.
	raceTests.beside = [][]step{
		{{name: "tests of the Python client and of Scrapy", do: Repo.PythonTest}},
		{tests, noRaceTests},
	}
	return r.counted(ctx, "test", []step{{name: "gofmt", do: Repo.gofmt}, {name: "go vet", do: Repo.vet}, raceTests})
}

// goTests returns the steps that together run each test of the module once. The first and the
// last step contain all tests that o.Run selects. A package that has nothing for a step is not
// built for it.
func (r Repo) goTests(ctx context.Context, o TestOptions, race bool) (tests, noRaceTests, raceTests step, err error) {
	plain, raced, err := r.testPackages(ctx)
	if err != nil {
		return
	}
	skip := "^" + systemPrefix + "|^" + campaignPrefix
	skipRaced := skip + "|^" + noRacePrefix
	wanted, wantedRaced := allBut(skip), allBut(skipRaced)
	if o.Run != "" {
		skipRaced = skip
		if wanted, err = chosen(o.Run); err != nil {
			return
		}
		wantedRaced = wanted
	}
	noRace, err := r.having(prefixed(noRacePrefix), raced)
	if err != nil {
		return
	}
	if plain, err = r.having(wanted, plain); err != nil {
		return
	}
	if raced, err = r.having(wantedRaced, raced); err != nil {
		return
	}
	tests = step{name: "tests", do: func(r Repo, ctx context.Context) error {
		if len(plain) == 0 {
			return nil
		}
		// These tests wait for processes that they start.
		return r.goTest(ctx, o, nil, append([]string{"-parallel=4"}, o.arguments("-skip="+skip, longestFirst(longPlainPackages, plain))...)...)
	}}
	noRaceTests = step{name: "tests without the race detector", do: func(r Repo, ctx context.Context) error {
		if len(noRace) == 0 {
			return nil
		}
		return r.goTest(ctx, o, nil, append([]string{"-parallel=4"}, o.arguments("-run=^"+noRacePrefix, longestFirst(longNoRacePackages, noRace))...)...)
	}}
	raceTests = step{name: "tests under the race detector", do: func(r Repo, ctx context.Context) error {
		if len(raced) == 0 {
			return nil
		}
		// These tests wait for servers and disks most of the time.
		args, env := []string{"-p=3", "-parallel=6"}, []string(nil)
		if race {
			// The detector makes each of dozens of programs, for which tests wait, sleep for a second at
			// its end, for goroutines that still work. It also makes garbage collection expensive:
			// with a larger heap packages take up to 30 % less processor time.
			args, env = append(args, "-race", untracedSQLite), []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=50", "GOGC=400"}
		}
		return r.goTest(ctx, o, env, append(args, o.arguments("-skip="+skipRaced, longestFirst(longPackages, raced))...)...)
	}}
	return
}

// untracedSQLite keeps the race detector away from SQLite's code, which is translated from C, does its
// own locking, and takes twenty times as long under it. It names this package alone: those around it
// contain copies of generic functions of sync, and the linker takes one copy for the whole program;
// without the detector's marks in that copy it reports false races.
const untracedSQLite = "-gcflags=modernc.org/sqlite/lib=-race=false"

func prefixed(prefix string) func(name string) bool {
	return regexp.MustCompile("^" + prefix).MatchString
}

// allBut matches the names of tests that go test runs with -skip.
func allBut(skip string) func(name string) bool {
	skipped := regexp.MustCompile(skip + "|^TestMain$")
	return func(name string) bool { return !skipped.MatchString(name) }
}

// chosen matches the names of tests that run selects: its part before a slash is about tests, the
// rest about subtests.
func chosen(run string) (func(name string) bool, error) {
	first, _, _ := strings.Cut(run, "/")
	names, err := regexp.Compile(first)
	if err != nil {
		return nil, fmt.Errorf("-run=%s: %w", run, err)
	}
	return names.MatchString, nil
}

// having keeps the packages that have tests with matching names.
func (r Repo) having(matches func(name string) bool, packages []string) ([]string, error) {
	folders, err := packagesWith(r.Dir, matches)
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, name := range packages {
		if slices.ContainsFunc(folders, func(folder string) bool {
			return strings.HasSuffix("/"+name, strings.TrimPrefix(folder, "."))
		}) {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

// TestSystem runs the system tests whose names match ("": all).
func (r Repo) TestSystem(ctx context.Context, names string) error {
	if _, err := r.prepare(ctx); err != nil {
		return err
	}
	packages, err := packagesWith(r.Dir, prefixed(systemPrefix))
	if err != nil {
		return err
	}
	names = cmp.Or(strings.TrimPrefix(names, "^"), systemPrefix)
	if !strings.HasPrefix(names, systemPrefix) {
		return fmt.Errorf("-run=%s: the names of system tests begin with %s", names, systemPrefix)
	}
	r.env, r.total = asReleased(), &total{}
	return r.counted(ctx, "testSystem", []step{
		{name: "system tests", do: func(r Repo, ctx context.Context) error {
			// They wait for hosts and restarts. On two slow cores four tests of e2e alone leave a sixth idle at most; on
			// quick ones each test uses a third of a core.
			return r.goTest(ctx, TestOptions{}, nil, append([]string{"-p=3", "-parallel=4", "-count=1", "-run=^" + names}, longestFirst(longSystemPackages, packages)...)...)
		}},
	})
}

// asReleased returns the environment that compiles programs as for a release, so that tests which
// build one find most of it compiled; but without tables for debuggers, which take an eighth of a compiler's time.
func asReleased() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath -gcflags=all=-dwarf=false")}
}

// arguments returns those of go test for the packages; choice selects among their tests.
func (o TestOptions) arguments(choice string, packages []string) []string {
	args := []string{choice}
	if o.Run != "" {
		args = append(args, "-run="+o.Run)
	}
	if o.Short {
		args = append(args, "-short")
	}
	if o.Run != "" || !o.Short {
		args = append(args, "-count=1") // what passed once may fail now
	}
	return append(args, packages...)
}

// counted does steps, and prints the results of the tests that they add to r.total: a table
// of the slowest, and a last line.
func (r Repo) counted(ctx context.Context, target string, steps []step) error {
	began := time.Now()
	err := r.steps(ctx, steps)
	fmt.Fprint(r.Out, r.total.slowest(20))
	fmt.Fprintf(r.Out, "total of %s: %s, in %s\n", target, r.total, time.Since(began).Round(time.Second))
	if err == nil && r.total.passed == 0 {
		err = errors.New("no test ran")
	}
	return err
}

// longSystemPackages take the longest of the system tests, the first of them by far.
var longSystemPackages = []string{"e2e", "sandbox", "mongodb", "downloads", "kills", "uridownloader", "chaos", "redis", "schedule", "crawl", "sqlite", "mysql"}

// These packages take the longest, the first of them most: under the race detector, in the pass of
// all other packages, and in that of the tests whose names exclude them from the detector.
var (
	longPackages       = []string{"redis", "leases", "archive", "mongodb", "remote", "embedded", "http", "fetch", "streams", "bitmap", "sqlite", "journal", "worker", "chaos", "crawl", "filters"}
	longPlainPackages  = []string{"daemon", "urifilter", "archive", "uridownloader", "kills", "service"}
	longNoRacePackages = []string{"redis", "powerloss", "embedded", "filters", "http", "journal"}
)

// longestFirst returns packages in the order in which they must begin, so that none runs alone
// at the end: first those whose names are in long.
func longestFirst(long, packages []string) []string {
	rank := func(name string) int {
		if i := slices.Index(long, path.Base(name)); i >= 0 {
			return i
		}
		return len(long)
	}
	return slices.SortedStableFunc(slices.Values(packages), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}

// goTest runs go test and reports on it. A step or another target vets what go test would vet;
// without tables for debuggers its programs link faster.
func (r Repo) goTest(ctx context.Context, o TestOptions, env []string, args ...string) error {
	return r.report("go test", o.Run != "", r.command(ctx, env, "go", append([]string{"test", "-json", "-timeout=80m", "-vet=off", "-ldflags=-w"}, args...)...))
}

// report runs commands that print events as go test -json does, one after the other,
// and reports on all of their tests. With mayBeNone there need not be a test.
func (r Repo) report(what string, mayBeNone bool, commands ...*exec.Cmd) error {
	rep := newReport(r.Out)
	var broken error
	for _, cmd := range commands {
		reader, writer := io.Pipe()
		cmd.Stdout = writer
		read := make(chan error, 1)
		go func() { read <- rep.read(reader) }()
		if err := cmd.Run(); err != nil && broken == nil {
			broken = err
		}
		writer.Close()
		if err := <-read; err != nil {
			return fmt.Errorf("%s: output: %w", what, err)
		}
	}
	fmt.Fprintln(r.Out, rep.counts)
	r.total.add(rep)
	if err := rep.verdict(r.NoSkip, mayBeNone); err != nil {
		return err
	}
	if broken != nil {
		return errors.Join(fmt.Errorf("%s: no test failed, but the command did", what), broken)
	}
	return nil
}
