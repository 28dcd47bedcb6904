package http

import (
	"context"
	"io"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// Backup copies bit-maps to and from the archive; a *backup.Copier is one. A copy ends
// with its context, without harm to archived data.
type Backup interface {
	Writeback(ctx context.Context, filter string, p archive.Progress) (backup.Copy, error)
	Restore(ctx context.Context, filter, version string, p archive.Progress) (backup.Copy, error)
}

// writeback answers when the copy is done. It has no time limit, but ends when the client
// leaves.
func (c *call) writeback() error {
	if err := c.mayCopy(); err != nil {
		return err
	}
	done, err := c.s.backup.Writeback(c.r.Context(), c.name, nil)
	if err != nil {
		return err
	}
	c.name = done.Filter // it may be the id
	return c.sendJSON(describeCopy(done))
}

func (c *call) restore() error {
	if err := c.mayCopy(); err != nil {
		return err
	}
	done, err := c.s.backup.Restore(c.r.Context(), c.name, c.r.URL.Query().Get("version"), nil)
	if err != nil {
		return err
	}
	c.name = done.Filter // it may be the id
	return c.sendJSON(describeCopy(done))
}

// mayCopy reads any unexpected body, and checks that there is an archive.
func (c *call) mayCopy() error {
	if err := c.readAway(); err != nil {
		return err
	}
	if c.s.backup == nil {
		f, err := c.s.engine.Find(c.r.Context(), c.name)
		if err != nil {
			return err
		}
		if _, err := f.BitMap(); err != nil {
			return err
		}
		return &problem.Error{Code: problem.NoArchive, Detail: "set mongodb.uri in the daemon's settings"}
	}
	return nil
}

// readAway reads any body of a call that needs none: net/http notices that a client has left only
// after the end of the body.
func (c *call) readAway() error {
	if err := c.body.open(true, specBytes); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(&c.body, specBytes+1))
	if err == nil && n > specBytes {
		return c.tooLarge(specBytes)
	}
	return err
}

func describeCopy(d backup.Copy) client.CopyResult {
	return client.CopyResult{
		Filter: d.Filter, Version: d.Version, Generation: d.Generation, Bytes: d.Bytes,
		Uploaded: d.Uploaded, ItemsEstimate: d.Items, TookSeconds: d.Took.Seconds(),
	}
}
