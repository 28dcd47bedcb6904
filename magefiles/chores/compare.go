package chores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Compare shows with benchstat how two results of Bench differ: folders with a NAME.txt for each
// part, or such files.
func (r Repo) Compare(ctx context.Context, before, after string) error {
	dir, err := os.MkdirTemp("", "urifilter-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var files []string
	for i, from := range []string{before, after} {
		text, err := r.samples(from)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		files = append(files, []string{"old=", "new="}[i]+file)
	}
	return r.run(ctx, nil, "go", "tool", "benchstat", "-ignore", "cpu", files[0], files[1])
}

// samples returns all runs of a result, in Go's benchmark format.
func (r Repo) samples(from string) ([]byte, error) {
	path := from
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Dir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: a folder that go tool mage bench has named as its results, or docs/measured", err)
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	names, err := filepath.Glob(filepath.Join(path, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: there are no results in it\nhint: want files such as http.txt, as go tool mage bench writes them", from)
	}
	slices.Sort(names)
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(append(all, text...), '\n')
	}
	return all, nil
}
