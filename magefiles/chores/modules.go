package chores

import (
	"context"
	"errors"
	"path/filepath"
)

// modules returns the modules of this repository other than the main one: adapters whose
// dependencies concern nobody else.
func (r Repo) modules() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(r.Dir, "client", "*", "go.mod"))
	for i, file := range files {
		files[i] = filepath.Dir(file)
	}
	return files, err
}

// testModules vets and tests the other modules.
func (r Repo) testModules(ctx context.Context) error {
	folders, err := r.modules()
	if err != nil {
		return err
	}
	if len(folders) == 0 {
		return errors.New("no module found under client: the search looks at the wrong place")
	}
	var failed []error
	for _, folder := range folders {
		other := r
		other.Dir = folder
		failed = append(failed, other.run(ctx, nil, "go", "vet", "./..."), other.goTest(ctx, TestOptions{}, nil, "./..."))
	}
	return errors.Join(failed...)
}
