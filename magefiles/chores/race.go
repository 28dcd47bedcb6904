package chores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// racePackage tells in which packages tests may be run under the race detector: there goroutines
// share memory, and its tenfold time is worth it. Check takes all.
var racePackage = regexp.MustCompile(`/(client|client/.*|daemon/internal/.*|magefiles/.*|provision/fleet|provision/report)$`)

// concurrent finds what a package with goroutines of its own, or of its tests, has in its text.
// One without is under the detector where others call it from theirs.
var concurrent = regexp.MustCompile(`\bgo (func\b|[\w.]+\()|\.Go\(|"sync"|"sync/atomic"|"golang\.org/x/sync/|"testing/synctest"|"net/http`)

// testPackages are the packages of the module, without and with the race detector.
func (r Repo) testPackages(ctx context.Context) (plain, race []string, err error) {
	var list strings.Builder
	cmd := r.command(ctx, nil, "go", "list", "-f={{.ImportPath}}\t{{.Dir}}", "./...")
	cmd.Stdout = &list
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(list.String()) {
		name, folder, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		raced := racePackage.MatchString(name)
		if raced {
			if raced, err = hasText(folder, concurrent); err != nil {
				return nil, nil, err
			}
		}
		if raced {
			race = append(race, name)
		} else {
			plain = append(plain, name)
		}
	}
	return plain, race, nil
}

// hasText tells whether a Go file of the folder, or of its tests, has a match.
func hasText(folder string, what *regexp.Regexp) (bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || what.Match(text) {
			return err == nil, err
		}
	}
	return false, nil
}
