package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
)

// ownType is the name of the filter in the folder of a crawl.
const ownType = "uri"

// filter is the filter that a crawl asks before it queues a URI.
type filter struct {
	of   seen.Filter
	name string
}

func (f filter) Check(ctx context.Context, uris []string) ([]bool, error) {
	return f.of.Check(ctx, f.name, uris)
}

func (f filter) Remember(ctx context.Context, uris []string) error {
	return f.of.Remember(ctx, f.name, uris)
}

// openFilter opens the filter in the folder, or connects to the daemon that the crawl shares.
func openFilter(ctx context.Context, dir string, s Setting, options []client.Option, log *slog.Logger) (filter, io.Closer, error) {
	if s.FilterURL == "" {
		own, err := seen.OpenVolatile(ctx, filepath.Join(dir, filterDir), log)
		return filter{own, ownType}, own, err
	}
	daemon, err := client.New(s.FilterURL, options...)
	if err != nil {
		return filter{}, nil, err
	}
	remote := seen.Call(daemon)
	// A missing filter is reported before anything is fetched.
	if _, err := remote.Check(ctx, s.FilterType, []string{s.Seeds[0]}); err != nil {
		_ = remote.Close()
		hint := "is a urifilter daemon running there? `urifilter ping` asks it; start one with `urifilter serve`"
		if errors.As(err, new(*seen.UnknownError)) {
			hint = "`urifilter filters list` shows which filters it has; name one with --filter"
		}
		return filter{}, nil, fmt.Errorf("--server %s: %w\nhint: %s", s.FilterURL, err, hint)
	}
	return filter{remote, s.FilterType}, remote, nil
}
