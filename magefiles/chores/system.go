package chores

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// testNames finds the functions of a file that go test runs.
var testNames = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// packagesWith returns the folders of the module at root that have tests with matching names,
// in the form that go test expects.
func packagesWith(root string, matches func(name string) bool) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "dist" || ofAnotherModule(path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(testNames.FindAllSubmatch(text, -1), func(m [][]byte) bool { return matches(string(m[1])) }) {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			found = append(found, "./"+filepath.ToSlash(folder))
		}
		return nil
	})
	slices.Sort(found)
	return slices.Compact(found), err
}

func ofAnotherModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}
