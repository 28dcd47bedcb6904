package chores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// racePackage matches the packages whose tests may run under the race detector: their goroutines
// share memory, and ten times the run time is worth it. Check runs all packages under it.
var racePackage = regexp.MustCompile(`/(client|client/.*|configs|daemon/internal/.*|daemon/urifilter/internal/(filter|near)|magefiles/.*|provision/(fleet|remote|remote/login|report|rollout|secret))$`)

// concurrent matches the text of a package that starts goroutines, itself or in its tests.
// Other packages run under the detector when they are called from such goroutines.
var concurrent = regexp.MustCompile(`\bgo (func\b|[\w.]+\()|\.Go\(|"sync"|"sync/atomic"|"golang\.org/x/sync/|"testing/synctest"|"net/http`)

// testPackages returns the packages to test without the race detector, and those to test with it.
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

// hasText reports whether a Go file of the folder, tests included, has a match.
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
