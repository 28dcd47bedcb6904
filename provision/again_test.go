package provision

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/program/uridownloader"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
)

// The call that a summary proposes next must be one that mage accepts: the targets with
// -resume are those of resumable, and no others.
func TestResumableTargetsAreThoseOfMage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../magefiles/*.go")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`(?ms)^func (?:\((\w+)\) )?([A-Z]\w*)\((.*?)^}`)
	var found []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "//go:build mage\n") {
			continue
		}
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[3], "roll *string") { // the shared flags with -resume
				continue
			}
			command := strings.ToLower(m[2])
			if m[1] != "" {
				command = strings.ToLower(m[1]) + ":" + command
			}
			found = append(found, command)
		}
	}
	want := slices.Clone(resumable)
	for _, p := range []program.Program{urifilter.Program(), uridownloader.Program()} {
		for _, verb := range resumableOfDaemon {
			want = append(want, p.Name+":"+verb)
		}
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("magefiles have -resume for %q, provision says %q", found, want)
	}
}

// A call that is meant to be pasted repeats everything that the call before it was given.
func TestTheNextCallSaysWhatWasGiven(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		o      Options
		env    map[string]string
		target string
		more   []string
	}{
		"go tool mage bitmap:restore -filters=uri -version=uri-3": {target: "bitmap:restore", more: []string{"filters", "uri", "version", "uri-3"}},
		"go tool mage deploy -resume":                             {target: "deploy"},
		"go tool mage deploy -resume -hosts='web*' -inventory='my hosts.yaml' -binary=dist/x-{arch} -keepGoing -v -parallel=2": {
			target: "deploy", o: Options{Hosts: "web*", Inventory: "my hosts.yaml", Binary: "dist/x-{arch}", KeepGoing: true, Verbose: true, Parallel: 2, Resume: true},
		},
		"URIFILTER_HOSTS=root@10.0.0.5,root@10.0.0.6 go tool mage deploy -resume": {target: "deploy", env: map[string]string{"URIFILTER_HOSTS": "root@10.0.0.5,root@10.0.0.6"}},
		"go tool mage deploy -resume -inventory=f.yaml -json":                     {target: "deploy", env: map[string]string{"URIFILTER_HOSTS": "a"}, o: Options{Inventory: "f.yaml", JSON: true}},
	} {
		toolkit := &Toolkit{o: c.o}
		toolkit.o.Getenv = func(name string) string { return c.env[name] }
		toolkit.noteFlags(c.more...)
		got := toolkit.resume(c.target)
		if got == "" {
			got = toolkit.call(c.target)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
