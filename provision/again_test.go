package provision

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a summary says is next must be a call that mage takes: the targets with -resume are
// those of resumable, and no others.
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
			if !strings.Contains(m[3], "resume *bool") {
				continue
			}
			command := strings.ToLower(m[2])
			if m[1] != "" {
				command = strings.ToLower(m[1]) + ":" + command
			}
			found = append(found, command)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, resumable) {
		t.Errorf("magefiles have -resume for %q, provision says %q", found, resumable)
	}
	if got := again("bitmap:restore"); got != "go tool mage bitmap:restore" {
		t.Errorf("a target without -resume is called as %q", got)
	}
	if got := again("deploy"); got != "go tool mage deploy -resume" {
		t.Errorf("deploy is called as %q", got)
	}
}
