package crawl

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// ReadLogin reads the file of Setting.Login, whose last step must have a check: a crawl that is
// not logged in would store other pages.
func ReadLogin(path string) (*form.File, error) {
	f, err := form.Read(path, os.LookupEnv)
	if err == nil {
		err = f.Checked()
	}
	if err != nil {
		return nil, fmt.Errorf("--login: %w", err)
	}
	return f, nil
}

// login does the steps of the setting's file, with requests as polite as all others of the crawl.
// save saves the cookies of the session.
func (c *Crawl) login(ctx context.Context) (save func() error, err error) {
	if c.Setting.Login == "" {
		return func() error { return nil }, nil
	}
	if c.session, err = ReadLogin(c.Setting.Login); err != nil {
		return nil, err
	}
	if c.jar, save, err = c.session.OpenJar(); err != nil {
		return nil, fmt.Errorf("--login: %w", err)
	}
	last, err := form.Session{Fetch: c.fetchPolitely, Jar: c.jar}.Run(ctx, c.session)
	if err != nil {
		return nil, fmt.Errorf("--login: %w", err)
	}
	c.log.Info("logged in", "uri", last.URI)
	return save, save()
}

// fetchPolitely fetches without a lease: when it is its host's turn, and if robots.txt allows it.
// Both also apply to redirects.
func (c *Crawl) fetchPolitely(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	ask := func(ctx context.Context, to string) error {
		u, err := uri.Parse(to)
		if err != nil {
			return err
		}
		if err := c.turn(ctx, to); err != nil {
			return err
		}
		return c.allowed(ctx, u)
	}
	if err := ask(ctx, r.URI); err != nil {
		return nil, err
	}
	r.Whole, r.Read = c.Setting.Timeout, min(c.Setting.Timeout, 30*time.Second)
	r.Before, r.Again = ask, c.turn
	return c.fetcher.Fetch(ctx, r)
}
