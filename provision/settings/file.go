package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// edit is a file of which the toolkit manages some parts, as it should be and as it is on a host.
type edit struct {
	file, managed         host.File // managed lists those parts, one a line
	before, managedBefore host.File // without a path: there is none
	missing               error     // why file cannot be written yet; nil: it can
}

// editing returns the step for such a file. want returns the edit; one of a file without a path: nothing is to be done.
func (f *Files) editing(name string, want func(ctx context.Context, h host.Host) (edit, error)) step.Undoer {
	return step.NewUndoer("settings: "+name, func(ctx context.Context, h host.Host) (*step.Change, step.Undo, error) {
		e, err := want(ctx, h)
		if err != nil || e.file.Path == "" {
			return nil, nil, err
		}
		if e.missing == nil && e.before.Path != "" && e.file.Same(e.before) && e.managed.Content == e.managedBefore.Content {
			return nil, nil, nil
		}
		change := &step.Change{Summary: "write " + e.file.Path, Diff: diff.Masked(e.file.Path, e.before.Content, e.file.Content)}
		if e.missing != nil {
			change.Apply = func(context.Context) error { return e.missing }
			return change, nil, nil
		}
		change.Apply = func(ctx context.Context) error { return explain(e.replace(ctx, h), f) }
		return change, e.undo, nil
	})
}

func (e edit) undo(ctx context.Context, h host.Host) (string, error) {
	err := errors.Join(host.Restore(ctx, h, e.file.Path, e.before), host.Restore(ctx, h, e.managed.Path, e.managedBefore))
	return e.file.Path + " is as it was before", err
}

// replace writes the file, and keeps a copy of the old one beside it. If it is interrupted at any point, no part that
// the toolkit manages is mistaken for somebody else's.
func (e edit) replace(ctx context.Context, h host.Host) error {
	if e.before.Path != "" {
		if err := host.AsRoot(ctx, h, fmt.Sprintf("cp -p %s %s", host.Quote(e.before.Path), host.Quote(e.before.Path+".bak"))); err != nil {
			return err
		}
	}
	both := e.managed
	both.Content = merged(e.managedBefore.Content, e.managed.Content)
	for _, f := range []host.File{both, e.file, e.managed} {
		if err := host.WriteFile(ctx, h, f); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the parts that the content of a managed file lists. Names of tokens may have blanks.
func listed(content string) []string {
	return slices.DeleteFunc(strings.Split(content, "\n"), func(part string) bool { return part == "" })
}

// merged returns the parts that two contents list, each once.
func merged(a, b string) string {
	parts := append(listed(a), listed(b)...)
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), "\n") + "\n"
}
