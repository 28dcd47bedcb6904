// Package pages stores the pages of a crawl as files that people can read: DIR/pages/ with a folder
// for each host, and the lines of DIR/index.ndjson that describe each file. It writes files that
// survive a crash; the crawl commits which of them count, and when.
package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// suffix is the suffix of files that are being written.
const suffix = ".tmp"

// Folder is DIR/pages. Its methods may be called by several goroutines.
type Folder struct {
	dir string
	fs  disk.FS

	mu    sync.Mutex          // guards the fields below
	known map[string]bool     // folders of hosts that are durable; bounded
	dirty map[string]struct{} // folders with names that are not durable
}

// maxKnown bounds how many host folders are remembered; a forgotten one is looked for again.
const maxKnown = 10_000

// Open opens the folder, and makes it if it is missing.
func Open(dir string, files disk.FS) (*Folder, error) {
	if err := files.MkdirAll("pages-mkdir", dir); err != nil {
		return nil, fmt.Errorf("folder of pages: %w", err)
	}
	return &Folder{dir: dir, fs: files, known: map[string]bool{}, dirty: map[string]struct{}{}}, nil
}

// Write writes the file of a name that Name has made, and replaces an old one. On return its bytes
// are on the disk, and its name is in the folder, but the name is durable only after Sync. After a
// crash or an error the old file or none remains, beside a file that Sweep removes.
func (f *Folder) Write(name string, body []byte) error {
	path, err := f.path(name)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := f.makeDir(dir); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	if err := f.replace(path, body); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	f.mu.Lock()
	f.dirty[dir] = struct{}{}
	f.mu.Unlock()
	return nil
}

func (f *Folder) makeDir(dir string) error {
	f.mu.Lock()
	known := f.known[dir]
	f.mu.Unlock()
	if known {
		return nil
	}
	if err := f.fs.MkdirAll("pages-mkdir", dir); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[dir] = true
	return nil
}

func (f *Folder) replace(path string, body []byte) (err error) {
	tmp := path + suffix
	file, err := f.fs.OpenFile("pages-create", tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // a second Close is harmless
			_ = f.fs.Remove("pages-remove", tmp)
		}
	}()
	if err := file.WriteAt("pages-write", body, 0); err != nil {
		return err
	}
	if err := file.Sync("pages-sync"); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return f.fs.Rename("pages-rename", tmp, path)
}

// Sync makes the names of all files durable that were written before the call. One Sync before a
// commit serves all pages of that commit.
func (f *Folder) Sync() error {
	f.mu.Lock()
	dirty := f.dirty
	f.dirty = map[string]struct{}{}
	f.mu.Unlock()
	for dir := range dirty {
		if err := f.fs.SyncDir("pages-syncdir", dir); err != nil {
			return fmt.Errorf("folder of pages: %w", err)
		}
	}
	return nil
}

// Path returns the path of the file with a name.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// path refuses names that Name cannot have made, for instance from a manipulated database.
func (f *Folder) path(name string) (string, error) {
	host, file, ok := strings.Cut(name, "/")
	if !ok || host == "" || file == "" || strings.HasPrefix(host, ".") || strings.HasPrefix(file, ".") || strings.ContainsAny(name, "\\:\x00") || strings.Contains(file, "/") {
		return "", fmt.Errorf("page %q: no name of a page", name)
	}
	return f.Path(name), nil
}

// Sweep removes leftovers of interrupted writes, and files that keep rejects: in a resumed crawl,
// those of pages that were never committed. A nil keep keeps all. Nothing may be written meanwhile.
// It returns how many files it removed.
func (f *Folder) Sweep(keep func(name string) bool) (removed int, err error) {
	hosts, err := os.ReadDir(f.dir)
	if err != nil {
		return 0, fmt.Errorf("folder of pages: %w", err)
	}
	for _, host := range hosts {
		if !host.IsDir() {
			continue
		}
		n, err := f.sweepHost(host.Name(), keep)
		if removed += n; err != nil {
			return removed, fmt.Errorf("folder of pages: %w", err)
		}
	}
	return removed, nil
}

func (f *Folder) sweepHost(host string, keep func(name string) bool) (removed int, err error) {
	dir := filepath.Join(f.dir, host)
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close() //nolint:errcheck // only read
	for {
		files, err := d.ReadDir(1000)
		for _, file := range files {
			name := file.Name()
			if file.IsDir() || !strings.HasSuffix(name, suffix) && (keep == nil || keep(host+"/"+name)) {
				continue
			}
			if err := f.fs.Remove("pages-remove", filepath.Join(dir, name)); err != nil {
				return removed, err
			}
			removed++
		}
		switch {
		case errors.Is(err, io.EOF):
			return removed, nil
		case err != nil:
			return removed, err
		}
	}
}

// Record is a line of index.ndjson.
type Record struct {
	URI         string    `json:"uri"`                    // the requested URI
	Final       string    `json:"final,omitempty"`        // the URI that answered, after redirects, if it differs
	File        string    `json:"file"`                   // under pages/, with /
	Status      int       `json:"status"`                 // of HTTP
	ContentType string    `json:"content_type"`           // as sent
	Declared    string    `json:"declared_encoding"`      // "": none was, or this is not text
	Detected    string    `json:"detected_encoding"`      // "": there was no detection, or no result
	Encoding    string    `json:"encoding"`               // the one used; "": stored unchanged
	Replaced    int       `json:"replaced,omitempty"`     // characters that stand for bytes which are none in Encoding
	Bytes       int       `json:"bytes"`                  // of the file
	SHA256      string    `json:"sha256"`                 // of the file, in hex
	DuplicateOf string    `json:"duplicate_of,omitempty"` // an earlier page with the same content
	Depth       int       `json:"depth"`                  // links from a seed
	Referrer    string    `json:"referrer"`               // the page on which it was first found; "": a seed
	NoIndex     bool      `json:"noindex,omitempty"`      // the page asks not to be shown in search results (meta robots, X-Robots-Tag)
	Time        time.Time `json:"time"`                   // when it was stored, in UTC to the millisecond
}

// Line returns the record as a line, with its line end.
func (r Record) Line() ([]byte, error) {
	r.Time = r.Time.UTC().Truncate(time.Millisecond)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// extensions are the file extensions of common media types.
var extensions = map[string]string{
	"text/html": "html", "application/xhtml+xml": "html", "text/plain": "txt", "text/css": "css", "text/csv": "csv", "text/markdown": "md",
	"text/calendar": "ics", "text/vcard": "vcf", "text/xml": "xml", "application/xml": "xml", "application/rss+xml": "xml", "application/atom+xml": "xml",
	"text/javascript": "js", "application/javascript": "js", "application/x-javascript": "js", "application/json": "json", "application/ld+json": "json",
	"application/x-ndjson": "ndjson", "application/pdf": "pdf", "application/rtf": "rtf", "application/epub+zip": "epub", "application/msword": "doc",
	"application/vnd.ms-excel": "xls", "application/vnd.ms-powerpoint": "ppt", "application/vnd.oasis.opendocument.text": "odt",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx", "application/zip": "zip", "application/gzip": "gz", "application/x-gzip": "gz",
	"application/x-tar": "tar", "application/x-7z-compressed": "7z", "application/vnd.rar": "rar", "application/wasm": "wasm", "application/sql": "sql",
	"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/avif": "avif", "image/svg+xml": "svg", "image/bmp": "bmp",
	"image/tiff": "tif", "image/x-icon": "ico", "image/vnd.microsoft.icon": "ico", "audio/mpeg": "mp3", "audio/ogg": "ogg", "audio/wav": "wav", "audio/flac": "flac",
	"audio/mp4": "m4a", "video/mp4": "mp4", "video/webm": "webm", "video/mpeg": "mpg", "video/quicktime": "mov", "font/woff": "woff", "font/woff2": "woff2",
	"font/ttf": "ttf", "font/otf": "otf",
}

// mediaType returns the type of a Content-Type, without parameters and in lower case.
func mediaType(contentType string) string {
	if t, _, err := mime.ParseMediaType(contentType); err == nil {
		return t
	}
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// Extension is the file extension for a Content-Type, without dot: bin for unknown types.
func Extension(contentType string) string {
	t := mediaType(contentType)
	switch {
	case extensions[t] != "":
		return extensions[t]
	case strings.HasSuffix(t, "+xml"):
		return "xml"
	case strings.HasSuffix(t, "+json"):
		return "json"
	case strings.HasPrefix(t, "text/"):
		return "txt"
	}
	return "bin"
}

// IsText reports whether bodies of a Content-Type are text, which is stored in UTF-8. All other
// bodies are stored unchanged.
func IsText(contentType string) bool {
	t := mediaType(contentType)
	switch t {
	case "application/xml", "application/javascript", "application/x-javascript", "application/json", "application/x-ndjson", "application/sql", "application/ecmascript":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+json")
}

// IsHTML reports whether bodies of a Content-Type are pages with links.
func IsHTML(contentType string) bool {
	t := mediaType(contentType)
	return t == "text/html" || t == "application/xhtml+xml"
}
