package download

import (
	"context"
	"slices"
	"strings"
)

// Ability says which of the live workers can do what.
type Ability struct {
	Workers []string          // their names, in order
	Holders map[string]string // of HasPrefix
}

// AbilityIn reads the abilities of the live workers from a store.
func AbilityIn(ctx context.Context, store interface {
	Holders(ctx context.Context, prefix string) (map[string]string, error)
}) (a Ability, err error) {
	workers, err := store.Holders(ctx, WorkerPrefix)
	if err != nil {
		return a, err
	}
	for name := range workers {
		a.Workers = append(a.Workers, strings.TrimPrefix(name, WorkerPrefix))
	}
	slices.Sort(a.Workers)
	a.Holders, err = store.Holders(ctx, HasPrefix)
	return a, err
}

// Blocks reports whether no live worker can do the tasks of a job. While no worker is alive, nobody knows what the
// next one can do.
func (a Ability) Blocks(j Job) bool {
	return len(a.Workers) > 0 && len(j.Unable(a.Workers, a.Holders)) == len(a.Workers)
}
