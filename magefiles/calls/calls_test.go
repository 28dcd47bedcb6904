package calls

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func targets(t *testing.T) *Targets {
	t.Helper()
	all, _, err := Parse("..")
	if err != nil || len(all.funcs) < 40 {
		t.Fatalf("%d targets, want 40 or more: %v", len(all.funcs), err)
	}
	return all
}

// Each mage call in the manuals, the examples of settings and the help of targets must be one that mage accepts: its
// target and its flags; and one that stands in a line or in backquotes, with all that the target wants.
func TestCallsOfTheManualsAreAccepted(t *testing.T) {
	t.Parallel()
	all := targets(t)
	named := regexp.MustCompile("`([a-z]+:[a-zA-Z]+)[` ]")
	called := regexp.MustCompile("go tool mage ([a-zA-Z_]+(?::[a-zA-Z]+)?)([^`#\n]*)")
	whole := regexp.MustCompile("(?m)(?:^(?://\t|\\s*|\\$ |# +)(?:git tag \\S+ && )?|`)go tool mage ([a-zA-Z_][^`\n]*)")
	flag, word := regexp.MustCompile(` -([a-zA-Z]+)`), regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`)
	quoted := regexp.MustCompile(`"[^"]*"`)
	var files []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "configs/*.yaml", "magefiles/*.go"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	seen := 0
	for _, manual := range files {
		text, err := os.ReadFile(manual)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"README.md", "operations.md", "sandbox.md"}, filepath.Base(manual)) { // others name keys like that
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				if _, err := all.find(m[1]); err != nil {
					t.Errorf("%s names %s: %v", manual, m[1], err)
				}
			}
		}
		for _, m := range called.FindAllStringSubmatch(string(text), -1) {
			f, err := all.find(m[1])
			if err != nil {
				if m[1] != "TARGET" {
					t.Errorf("%s: %v", manual, err)
				}
				continue
			}
			for _, given := range flag.FindAllStringSubmatch(quoted.ReplaceAllString(m[2], ""), -1) {
				if a, found := flagOf(f, given[1]); !found || a.Name != given[1] {
					t.Errorf("%s calls %s with -%s, which it does not take", manual, m[1], given[1])
				}
			}
		}
		for _, m := range whole.FindAllStringSubmatch(string(text), -1) {
			var words []string
			for _, w := range word.FindAllString(m[1], -1) {
				if w[0] == '#' || w[0] == '>' || slices.Contains([]string{"|", "&&", "&", ";", `\`}, w) {
					break
				}
				words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(w))
			}
			if seen++; words[0] == "TARGET" {
				continue
			}
			if _, _, err := all.Read(words, "go tool mage", false); err != nil {
				t.Errorf("%s: %s: %v", manual, m[1], err)
			}
		}
	}
	if seen < 150 {
		t.Errorf("%d whole calls were found: have the manuals another form?", seen)
	}
}

// A set of shared flags that no target takes, or a parameter that is none, would be an error of mage's at best.
func TestSharedFlagsAreTaken(t *testing.T) {
	t.Parallel()
	all := targets(t)
	taken := map[string]bool{}
	for f, name := range all.parameter {
		taken[name] = true
		if _, found := flagOf(f, name); found {
			t.Errorf("%s shows the parameter %s", shown(f), name)
		}
	}
	if len(taken) != len(shared) {
		t.Errorf("targets take %v of %d sets", taken, len(shared))
	}
}

// The program that mage compiles reads calls as `go tool mage` does, and gives its targets the shared flags in one.
func TestCompiledProgramReadsSharedFlags(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		"deploy": "deploy",
		"-v deploy -binary=b --hosts a,b -dry-run=1": `-v deploy -binary=b -roll={"dryRun":true,"hosts":"a,b"}`,
		"-t 5m urifilter_restart --parallel 3 -v=F":  `-t 5m urifilter_restart -roll={"parallel":3,"v":false}`,
		"urifilter:logs -lines=5 -json ssh:check -v": `urifilter:logs -lines=5 -look={"json":true} ssh:check -see={"v":true}`,
		`install:env -inventory=a"b`:                 `install:env -change={"inventory":"a\"b"}`,
		"install:bundle dir -hosts=web1":             `install:bundle dir -at={"hosts":"web1"}`,
		"-l":                                         "-l",
		"":                                           "",
		"-h deploy":                                  "help of deploy",
		"urifilter:logs -lines=5 -h":                 "help of urifilter:logs",
		"urifilter:status -dryRun":                   "urifilter:status has no flag -dryRun",
		"sandbox:status -hosts=a":                    "sandbox:status has no flag -hosts",
		"-h nonsense":                                "there is no target nonsense",
		"urifilter:logs -lines=5 -look={}":           "urifilter:logs has no flag -look",
		"deploy -parallel=many":                      "-parallel=many of deploy: want a whole number",
	} {
		words, help, err := Compiled(os.DirFS(".."), append([]string{"/bin/ours"}, strings.Fields(call)...))
		got := strings.TrimSpace(strings.TrimPrefix(strings.Join(words, " "), "/bin/ours"))
		if _, usage, asked := strings.Cut(help, "Usage:\n\n\tours "); asked {
			got = "help of " + strings.Fields(usage)[0]
			if !strings.Contains(help, "-hosts=<string>") {
				t.Errorf("%q: no -hosts in %s", call, help)
			}
		}
		if err != nil {
			got, _, _ = strings.Cut(fmt.Sprint(err), "\n")
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", call, got, want)
		}
	}
}
