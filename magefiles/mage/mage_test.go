package main

import (
	"os"
	"strings"
	"testing"

	"github.com/magefile/mage/mage"

	"github.com/cr-clawer/urifilter/magefiles/calls"
)

// ours returns a function that gives the targets of this repository.
func ours(t *testing.T) func(string) (*calls.Targets, []string, error) {
	t.Helper()
	all, files, err := magefiles("../..")
	if err != nil || all == nil {
		t.Fatalf("%v, %v", all, err)
	}
	return func(string) (*calls.Targets, []string, error) { return all, files, nil }
}

func TestCallsAreGivenAsMageReadsThem(t *testing.T) {
	t.Parallel()
	read := ours(t)
	for call, want := range map[string]string{
		"deploy":                            "deploy",
		"deploy --inventory=f.yaml":         "deploy -inventory=f.yaml",
		"deploy -inventory f.yaml -dry-run": "deploy -inventory=f.yaml -dryRun=true",
		"deploy --dry_run --parallel 3 -v":  "deploy -dryRun=true -parallel=3 -v=true",
		"deploy -DRYRUN=false":              "deploy -dryRun=false",
		"deploy -binary=a=b":                "deploy -binary=a=b",
		"deploy --help":                     "-h deploy",
		"plan -inventory f -h":              "-h plan",
		"-v build test -run TestX":          "-v build test -run=TestX",
		"install:bundle dir --hosts online": "install:bundle dir -hosts=online",
		"bitmap_update --filters uri,ip":    "bitmap_update -filters=uri,ip",
		"chaos -duration 2h":                "chaos -duration=2h",
		"chaos -faults=-clock":              "chaos -faults=-clock",
		"urifilter:LOGS -since=-5min":       "urifilter:LOGS -since=-5min",
		"-l":                                "-l",
		"-h deploy":                         "-h deploy",
		"-h bench:compare":                  "-h benchCompare",
		"bench:compare a b -h":              "-h benchCompare",
		"-h INSTALL_env":                    "-h install:env",
		"-version":                          "-version",
		"":                                  "",
		"-compile out":                      "-compile out",
	} {
		words, help, err := rewrite(strings.Fields(call), read)
		got := strings.Join(words, " ")
		if _, usage, asked := strings.Cut(help, "Usage:\n\n\tgo tool mage "); asked {
			got = "-h " + strings.Fields(usage)[0]
		}
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", call, got, err, want)
		}
	}
}

func TestRefusedCallsSayWhatToType(t *testing.T) {
	t.Parallel()
	read := ours(t)
	for call, want := range map[string][]string{
		"deploi":                         {"there is no target deploi", "hint: did you mean deploy? go tool mage -l"},
		"-h deploi":                      {"did you mean deploy?"},
		"bitmap:writebackstrat":          {"did you mean bitmap:writebackStart?"},
		"status":                         {"did you mean bitmap:status, sandbox:status, uridownloader:status or urifilter:status?"},
		"logs":                           {"did you mean uridownloader:logs or urifilter:logs?"},
		"rollback":                       {"did you mean uridownloader:rollback or urifilter:rollback?"},
		"ssh":                            {"did you mean sandbox:ssh, ssh:check or ssh:setup?"},
		"-h Restart":                     {"did you mean uridownloader:restart or urifilter:restart?"},
		"install_djago":                  {"did you mean install_django?"},
		"nonsense":                       {"there is no target nonsense\nhint: go tool mage -l"},
		"deploy web1":                    {"hint: if it is a host: go tool mage deploy -hosts=web1"},
		"deploy -dryRun true":            {"-dryRun=true"},
		"deploy -inventry=f":             {"deploy has no flag -inventry\nhint: did you mean -inventory?"},
		"deploy -follow":                 {"deploy has no flag -follow\nhint: it takes -binary -hosts "},
		"deploy -inventory":              {"-inventory of deploy wants a value: -inventory=<string>", "in place of configs/hosts.yaml"},
		"deploy -inventory -dryRun":      {"-inventory of deploy wants a value"},
		"deploy -parallel=many":          {"-parallel=many of deploy: want a whole number", "how many hosts"},
		"deploy -resume=perhaps":         {"want true or false"},
		"chaos -duration=2":              {"want a time such as 90s"},
		"install:bundle":                 {"install:bundle wants <folder> next"},
		"install:bundle -hosts=a bundle": {"install:bundle wants <folder> next"},
		"-dryRun deploy":                 {"-dryRun stands before the target\nhint: the target first, then its flags: go tool mage deploy -dryRun"},
		"sandbox:status -hosts=a":        {"sandbox:status has no flag -hosts\nhint: go tool mage -h sandbox:status"},
	} {
		got, _, err := rewrite(strings.Fields(call), read)
		if err == nil {
			t.Errorf("%q: taken as %q", call, got)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: got %q, want %q", call, err, w)
			}
		}
	}
}

// Calls that are not about targets are left to mage, whatever it answers.
func TestOtherCallsAreLeftToMage(t *testing.T) {
	t.Parallel()
	read := ours(t)
	for _, call := range []string{"-nonsense", "-t soon deploy", "-h deploy plan", "-clean -l"} {
		if got, help, err := rewrite(strings.Fields(call), read); help != "" || err != nil || strings.Join(got, " ") != call {
			t.Errorf("%q: got %q, %v", call, got, err)
		}
	}
	none, _, err := magefiles(t.TempDir())
	if none != nil || err != nil {
		t.Errorf("an empty folder: %v, %v", none, err)
	}
}

// The first compilation takes minutes and is announced; later calls do not compile.
func TestTheFirstCompilationIsTold(t *testing.T) {
	t.Parallel()
	_, files, err := ours(t)("")
	if err != nil {
		t.Fatal(err)
	}
	call := mage.Invocation{CacheDir: t.TempDir()}
	said := func() string {
		var out strings.Builder
		sayBuilding(&out, call, files)
		return out.String()
	}
	if got := said(); !strings.HasPrefix(got, "compiling the targets") || strings.Count(got, "\n") != 1 {
		t.Errorf("first: %q", got)
	}
	program, err := mage.ExeName("go", call.CacheDir, files)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := said(); got != "" {
		t.Errorf("second: %q", got)
	}
}
