// Package powerloss finds out what a disk may hold after a power cut: it records the
// operations of a disk.FS, and makes folders as a cut after any of them may leave
// them. It is for tests. docs/reliability.md says what it assumes.
package powerloss

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Log is what was done below a folder, in order, with the caller's notes in between. It is safe
// for concurrent use; operations are done one at a time.
type Log struct {
	root string

	mu      sync.Mutex
	entries []Entry
}

// Entry is an operation, or a note.
type Entry struct {
	Op   disk.Op
	Done bool  // it took effect
	Err  error // what its caller was told
	Note any   // not nil: no operation
}

// NewLog begins with an empty folder.
func NewLog(root string) *Log { return &Log{root: filepath.Clean(root)} }

// Record is for disk.FS.
func (l *Log) Record(op disk.Op, run func() (bool, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	done, err := run()
	op.Data = bytes.Clone(op.Data)
	l.entries = append(l.entries, Entry{Op: op, Done: done, Err: err})
	return err
}

// Note adds something that the caller wants to find between the operations.
func (l *Log) Note(note any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, Entry{Note: note})
}

// Entries returns all entries so far.
func (l *Log) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// pageBytes is how much the system writes at a time, sectorBytes how much a disk writes as a
// whole.
const (
	pageBytes   = 4096
	sectorBytes = 512
)

// Disk is what operations have made of a folder: for each name, length and page, all versions
// that the disk may have. The last version is that of the system's cache.
type Disk struct {
	root  string
	top   *node
	files map[*disk.File]*node
	made  int
}

// node is a file or a folder.
type node struct {
	id    int
	names map[string][]*node // of a folder; a nil node: none of that name

	sizes     []int64 // of a file
	sizeDirty bool
	pages     map[int64]*page
}

// page is a page of a file. Contents are nil for zeroes.
type page struct {
	versions [][]byte
	dirty    bool // the next sync writes it
	fresh    bool // no sync has written it: what the block held before may show
}

// NewDisk returns a disk with an empty folder that is durable.
func NewDisk(root string) *Disk {
	d := &Disk{root: filepath.Clean(root), files: map[*disk.File]*node{}}
	d.top = d.newNode(true)
	return d
}

func (d *Disk) newNode(dir bool) *node {
	d.made++
	n := &node{id: d.made}
	if dir {
		n.names = map[string][]*node{}
	} else {
		n.sizes, n.pages = []int64{0}, map[int64]*page{}
	}
	return n
}

func last[T any](all []T) (v T) {
	if len(all) > 0 {
		v = all[len(all)-1]
	}
	return v
}

// find returns the folder of a path and the name in it; nil if the path lies elsewhere.
func (d *Disk) find(path string) (dir *node, name string) {
	rest, ok := strings.CutPrefix(filepath.Clean(path), d.root+string(filepath.Separator))
	if !ok {
		return nil, ""
	}
	parts := strings.Split(rest, string(filepath.Separator))
	dir = d.top
	for _, part := range parts[:len(parts)-1] {
		if dir = last(dir.names[part]); dir == nil || dir.names == nil {
			return nil, ""
		}
	}
	return dir, parts[len(parts)-1]
}

// set gives a name another meaning, which is durable after a sync of the folder.
func (n *node) set(name string, to *node) {
	if _, ok := n.names[name]; !ok {
		n.names[name] = []*node{nil}
	}
	n.names[name] = append(n.names[name], to)
}

// Apply applies the next entry of a log.
func (d *Disk) Apply(e Entry) {
	op := e.Op
	switch {
	case e.Note != nil:
		return
	case op.Kind == disk.OpSync && e.Err != nil: // whatever was done
		if n := d.files[op.File]; n != nil {
			n.syncFailed()
		}
		return
	case !e.Done:
		return
	}
	switch op.Kind {
	case disk.OpOpen:
		d.open(op)
	case disk.OpWrite:
		d.files[op.File].write(op.Data, op.Off)
	case disk.OpTruncate:
		d.files[op.File].resize(op.Off)
	case disk.OpSync:
		d.files[op.File].sync()
	case disk.OpSyncDir:
		d.syncDir(op.Path)
	case disk.OpMkdir:
		if dir, name := d.find(op.Path); dir != nil {
			dir.set(name, d.newNode(true))
		}
	case disk.OpRename:
		from, old := d.find(op.From)
		to, name := d.find(op.Path)
		n := last(from.names[old])
		from.set(old, nil)
		to.set(name, n)
	case disk.OpRemove:
		if dir, name := d.find(op.Path); dir != nil {
			dir.set(name, nil)
		}
	case disk.OpRemoveAll:
		if dir, name := d.find(op.Path); dir != nil && last(dir.names[name]) != nil {
			last(dir.names[name]).removeAll()
			dir.set(name, nil)
		}
	}
}

func (d *Disk) open(op disk.Op) {
	dir, name := d.find(op.Path)
	n := last(dir.names[name])
	if n == nil {
		n = d.newNode(false)
		dir.set(name, n)
	} else if op.Flag&os.O_TRUNC != 0 {
		n.resize(0)
	}
	d.files[op.File] = n
}

func (d *Disk) syncDir(path string) {
	n := d.top
	if filepath.Clean(path) != d.root {
		dir, name := d.find(path)
		if dir == nil {
			return // above the root
		}
		n = last(dir.names[name])
	}
	for name, all := range n.names {
		n.names[name] = []*node{last(all)}
	}
}

func (n *node) removeAll() {
	for name, all := range n.names {
		if child := last(all); child != nil {
			child.removeAll()
			n.set(name, nil)
		}
	}
}

// sync makes durable what was written since the last sync. What a sync with an error has left
// counts as clean, and is not written.
func (n *node) sync() {
	if n.sizeDirty {
		n.sizes, n.sizeDirty = []int64{last(n.sizes)}, false
	}
	for _, p := range n.pages {
		if p.dirty {
			p.versions, p.dirty, p.fresh = [][]byte{last(p.versions)}, false, false
		}
	}
}

// syncFailed: anything may have reached the disk, and no later sync writes the rest.
func (n *node) syncFailed() {
	n.sizeDirty = false
	for _, p := range n.pages {
		p.dirty = false
	}
}

func (n *node) resize(size int64) {
	if size < last(n.sizes) {
		for at, p := range n.pages {
			if at*pageBytes >= size {
				p.set(nil)
			}
		}
	}
	if size != last(n.sizes) {
		n.sizes = append(n.sizes, size)
	}
	n.sizeDirty = true
}

func (n *node) write(data []byte, off int64) {
	if end := off + int64(len(data)); end > last(n.sizes) {
		n.resize(end)
	}
	for len(data) > 0 {
		at := off / pageBytes
		within := off % pageBytes
		length := min(int64(len(data)), pageBytes-within)
		p := n.pages[at]
		if p == nil {
			p = &page{versions: [][]byte{nil}, fresh: true}
			n.pages[at] = p
		}
		content := make([]byte, pageBytes)
		copy(content, last(p.versions))
		copy(content[within:], data[:length])
		p.set(content)
		data, off = data[length:], off+length
	}
}

var zeroPage [pageBytes]byte

func (p *page) set(content []byte) {
	p.dirty = true
	if bytes.Equal(content, zeroPage[:]) {
		content = nil
	}
	if !bytes.Equal(content, last(p.versions)) {
		p.versions = append(p.versions, content)
	}
}
