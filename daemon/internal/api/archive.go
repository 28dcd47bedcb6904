package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// Backup copies bit-maps to and from the archive; a *backup.Copier is one. A copy ends
// with its context, without harm to what is archived.
type Backup interface {
	Writeback(ctx context.Context, filter string, p archive.Progress) (backup.Copy, error)
	Restore(ctx context.Context, filter, version string, p archive.Progress) (backup.Copy, error)
}

// writeback answers when the copy is done. Nothing limits its time but the client, who
// ends it by leaving.
func (c *call) writeback() error {
	if err := c.mayCopy(); err != nil {
		return err
	}
	done, err := c.s.backup.Writeback(c.r.Context(), c.name, nil)
	if err != nil {
		return err
	}
	c.name = done.Filter // it may be the id
	return c.sendJSON(http.StatusOK, describeCopy(done))
}

func (c *call) restore() error {
	if err := c.mayCopy("version"); err != nil {
		return err
	}
	done, err := c.s.backup.Restore(c.r.Context(), c.name, c.r.URL.Query().Get("version"), nil)
	if err != nil {
		return err
	}
	c.name = done.Filter // it may be the id
	return c.sendJSON(http.StatusOK, describeCopy(done))
}

// mayCopy checks the query, reads a body that nobody asked for, and that there is an
// archive.
func (c *call) mayCopy(known ...string) error {
	if err := c.queryOnly(known...); err != nil {
		return err
	}
	if c.s.backup == nil {
		f, err := c.s.engine.Lookup(c.name)
		if err != nil {
			return err
		}
		if _, err := f.BitMap(); err != nil {
			return err
		}
		return &fault{code: codeNoArchive, detail: "set mongodb.uri in the daemon's settings"}
	}
	return nil
}

// queryOnly checks the query of a call that has no body, and reads one that nobody asked for:
// net/http sees a client leave only when the body has ended.
func (c *call) queryOnly(known ...string) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return &fault{code: codeInvalidParameter, detail: err.Error()}
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return &fault{code: codeUnknownParameter, detail: strconv.Quote(name), known: known}
		}
	}
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

// archiveFault finds what the client is told of an error of a copy; nil for others.
// Only callers who may administer the daemon get these.
func archiveFault(err error) *fault {
	var (
		busy     *backup.BusyError
		lease    *archive.LeaseError
		overtook *archive.OvertakenError
		mismatch *archive.MismatchError
		version  *backup.UnknownVersionError
		failed   *backup.CopyError
	)
	switch {
	case errors.As(err, &busy):
		return &fault{code: codeLeaseHeld, detail: busy.Error()}
	case errors.As(err, &lease):
		return &fault{code: codeLeaseHeld, detail: fmt.Sprintf("filter %s: held by %s until %s", lease.Filter, lease.Owner, lease.Until.UTC().Format(time.RFC3339))}
	case errors.As(err, &overtook):
		return &fault{code: codeLeaseHeld, detail: overtook.Error()}
	case errors.As(err, &mismatch):
		return &fault{code: codeArchiveMismatch, detail: mismatch.Error()}
	case errors.As(err, &version):
		return &fault{code: codeUnknownVersion, detail: version.Error(), known: version.Known}
	case errors.Is(err, backup.ErrStopping):
		return &fault{code: codeNotReady, detail: backup.ErrStopping.Error()}
	case errors.Is(err, archive.ErrUnreachable):
		return &fault{code: codeArchiveUnavailable, cause: err}
	case errors.Is(err, engine.ErrFailed), errors.Is(err, engine.ErrNoSpace), errors.Is(err, engine.ErrConflict):
		return nil // not the archive's
	case errors.As(err, &failed):
		return &fault{code: codeArchiveFailed, detail: failed.Error()}
	}
	return nil
}
