package settings

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/host"
)

// state is a file as it is on a host.
type state struct {
	host.File
	there bool
}

// read queries the states of several files at once; the result is by path.
func read(ctx context.Context, h host.Host, paths ...string) (map[string]state, error) {
	files, err := host.ReadFiles(ctx, h, paths...)
	if err != nil {
		return nil, err
	}
	states := map[string]state{}
	for _, path := range paths {
		file, there := files[path]
		states[path] = state{file, there}
	}
	return states, nil
}

// backup keeps a copy of the file beside it, with its mode and owner.
func backup(ctx context.Context, h host.Host, s state) error {
	if !s.there {
		return nil
	}
	_, err := h.Run(ctx, host.Command{Root: true, Script: fmt.Sprintf("cp -p %s %s", host.Quote(s.Path), host.Quote(s.Path+".bak"))})
	return err
}

// restore brings a file back to a state. It does not write an unchanged file again, so that
// a host on which nothing could be written in the first place does not fail twice.
func restore(ctx context.Context, h host.Host, path string, s state) error {
	if s.there {
		if now, there, err := host.ReadFile(ctx, h, path); err == nil && there && s.Same(now) {
			return nil
		}
		return host.WriteFile(ctx, h, s.File)
	}
	_, err := h.Run(ctx, host.Command{Root: true, Script: "rm -f " + host.Quote(path)})
	return err
}
