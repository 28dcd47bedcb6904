package crawltest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/graph"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/pages"
)

// Records reads the lines of an index.
func Records(dir string) (all []pages.Record, err error) {
	err = lines(filepath.Join(dir, "index.ndjson"), func(line []byte) error {
		var r pages.Record
		err := json.Unmarshal(line, &r)
		all = append(all, r)
		return err
	})
	return all, err
}

func lines(path string, each func([]byte) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return fmt.Errorf("%s: the last line is not whole", path)
	}
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 2<<20)
	for n := 1; s.Scan(); n++ {
		if err := each(s.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return s.Err()
}

// Check says what is wrong with the folder of a crawl that has stored n pages: each URI must be
// there once, each with its file, no file without a line, each page of the site with its text, and
// the graph must have exactly the links of the stored pages.
func Check(dir string, n int) error {
	all, err := Records(dir)
	if err != nil {
		return err
	}
	var wrong []error
	bad := func(format string, args ...any) {
		if len(wrong) < 20 {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	if len(all) != n {
		bad("the index has %d lines, want %d", len(all), n)
	}
	uris, files, contents := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, r := range all {
		if uris[r.URI] {
			bad("%s is in the index twice", r.URI)
		}
		if files[r.File] {
			bad("file %s is in the index twice", r.File)
		}
		uris[r.URI], files[r.File] = true, true
		text, err := os.ReadFile(filepath.Join(dir, "pages", filepath.FromSlash(r.File)))
		if err != nil {
			bad("%s: %w", r.URI, err)
			continue
		}
		if fmt.Sprintf("%x", sha256.Sum256(text)) != r.SHA256 || len(text) != r.Bytes {
			bad("%s: the file is not what the index says", r.URI)
		}
		if first := contents[r.SHA256]; first != r.DuplicateOf {
			bad("%s: is a duplicate of %q, want %q", r.URI, r.DuplicateOf, first)
		} else if first == "" {
			contents[r.SHA256] = r.URI
		}
		if i, ok := number(r.URI); ok {
			if want, _ := Text(i); !bytes.Contains(text, []byte("<p>"+want+"</p>")) {
				bad("%s: its text is not that of page %d", r.URI, i)
			}
		}
	}
	err = filepath.WalkDir(filepath.Join(dir, "pages"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(filepath.Join(dir, "pages"), path)
		if name = filepath.ToSlash(name); !files[name] {
			bad("file %s is in no line of the index", name)
		}
		return err
	})
	return errors.Join(append(wrong, err, checkGraph(dir, uris))...)
}

// number returns the number of the site's page that a URI names.
func number(uri string) (i int, ok bool) {
	for _, kind := range []string{"/p/", "/copy/", "/slow/"} {
		if _, rest, found := strings.Cut(uri, kind); found {
			_, err := fmt.Sscanf(rest, "%d", &i)
			return i, err == nil
		}
	}
	return 0, false
}

func checkGraph(dir string, stored map[string]bool) error {
	from, seen := map[string]int{}, map[string]bool{}
	err := lines(filepath.Join(dir, graph.File), func(line []byte) error {
		var e graph.Edge
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Rel == "redirect" {
			return nil
		}
		if !stored[e.From] {
			return fmt.Errorf("a link of %s, which is not stored", e.From)
		}
		if key := e.From + " " + e.Text; seen[key] && e.Text != "" && strings.HasPrefix(e.Text, "/p/") && !strings.Contains(e.Text, "utm") {
			return fmt.Errorf("the link %q of %s appears twice", e.Text, e.From)
		} else {
			seen[key] = true
		}
		from[e.From]++
		return nil
	})
	if err != nil {
		return err
	}
	for uri := range stored {
		if _, ok := number(uri); ok && from[uri] < 5 { // four others, and a trap
			return fmt.Errorf("%s has %d links in the graph, want 5 or more", uri, from[uri])
		}
	}
	return nil
}
