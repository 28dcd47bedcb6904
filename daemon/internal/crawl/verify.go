package crawl

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/pages"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/warc"
)

// Verify checks the folder of a crawl, which may be running: its database, each page against the digest in the
// index, and each record of the WARC files against its own. It calls found for all that is damaged, with the URI of a page or "", and
// checked with the length of each page. It returns an error if it could not go on.
func Verify(ctx context.Context, dir string, found func(uri, fault string), checked func(bytes int64)) error {
	if !frontier.Exists(dir) {
		return &NoneError{dir}
	}
	faults, outputs, err := frontier.Inspect(ctx, dir)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		found("", "database: "+fault)
	}
	if committed := outputs[archiveDir]; committed != "" {
		var to warc.Position
		if err := json.Unmarshal([]byte(committed), &to); err != nil {
			return err
		}
		if err := warc.Verify(ctx, filepath.Join(dir, archiveDir), to, warc.Options{}, func(fault string) { found("", fault) }, checked); err != nil {
			return err
		}
	}
	index, err := os.Open(filepath.Join(dir, IndexFile))
	if err != nil {
		return err
	}
	defer index.Close() //nolint:errcheck // it was only read
	lines := bufio.NewReader(index)
	for n := 1; ctx.Err() == nil; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without its end is being written, or was when the crawl was killed
			return nil
		}
		if err != nil {
			return err
		}
		var r pages.Record
		if err := json.Unmarshal(line, &r); err != nil {
			found("", fmt.Sprintf("%s:%d: %v", IndexFile, n, err))
			continue
		}
		size, sum, err := digest(filepath.Join(dir, pagesDir), r.File)
		switch {
		case err != nil:
			found(r.URI, err.Error())
		case size != int64(r.Bytes) || sum != r.SHA256:
			found(r.URI, fmt.Sprintf("%s: %d bytes with SHA-256 %s; %d with %s were stored", r.File, size, sum, r.Bytes, r.SHA256))
		}
		checked(size)
	}
	return context.Cause(ctx)
}

func digest(dir, name string) (size int64, sum string, err error) {
	root, err := os.OpenRoot(dir) // whatever the index says, nothing else is read
	if err != nil {
		return 0, "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return 0, "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), err
}
