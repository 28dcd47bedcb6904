package simhash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// column is a list that grows without being copied, in memory that is not on Go's heap.
type column[T uint32 | uint64] struct {
	mem mapped.Memory
	all []T // mem
	n   int
}

const columnBytes = 64 << 10 // by which a column grows at least

func (c *column[T]) append(v T) error {
	if c.n == len(c.all) {
		if err := c.grow(); err != nil {
			return err
		}
	}
	c.all[c.n] = v
	c.n++
	return nil
}

func (c *column[T]) grow() error {
	size := len(c.mem) + columnStep(len(c.mem))
	mem, err := c.mem.Extend(size)
	if err != nil {
		return fmt.Errorf("list of %d bytes: %w", size, err)
	}
	c.mem = mem
	var v T
	c.all = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(c.mem))), len(c.mem)/int(unsafe.Sizeof(v)))
	return nil
}

// columnStep is by how much a column of so many bytes grows.
func columnStep(bytes int) int { return max(1, bytes/16/columnBytes) * columnBytes }

func (c *column[T]) at(i uint32) T { return c.all[i] }

func (c *column[T]) bytes() uint64 { return uint64(len(c.mem)) }

// texts keeps the ids of documents, each with the address of the next document with the same
// fingerprint: 4 bytes for that address, 2 for the length, and the id. Addresses count units of
// 4 bytes, so that 16 GiB can be addressed. Ids stay where they are until all are freed.
type texts struct {
	chunks []mapped.Memory
	used   int // of the last chunk
}

const (
	none       = uint32(1<<32 - 1) // the address of nothing
	unit       = 4
	textsChunk = 1 << 20
	textsHead  = 6
	maxChunks  = (1<<32 - 1) * unit / textsChunk // whose places are addresses
)

// append adds an id and returns its address. No document is next to it yet.
func (t *texts) append(id []byte) (uint32, error) {
	size := (textsHead + len(id) + unit - 1) / unit * unit
	if len(t.chunks) == 0 || t.used+size > textsChunk {
		chunk, err := mapped.Allocate(textsChunk)
		if err != nil {
			return 0, fmt.Errorf("ids of %d MiB: %w", len(t.chunks), err)
		}
		t.chunks = append(t.chunks, chunk)
		t.used = 0
	}
	chunk := len(t.chunks) - 1
	if chunk >= maxChunks {
		return 0, errors.New("ids of 16 GiB: more than there can be")
	}
	at := uint32((chunk*textsChunk + t.used) / unit)
	b := t.chunks[chunk][t.used:]
	binary.LittleEndian.PutUint32(b, none)
	binary.LittleEndian.PutUint16(b[4:], uint16(len(id)))
	copy(b[textsHead:], id)
	t.used += size
	return at, nil
}

func (t *texts) record(at uint32) []byte {
	place := int(at) * unit
	return t.chunks[place/textsChunk][place%textsChunk:]
}

func (t *texts) id(at uint32) []byte {
	b := t.record(at)
	n := textsHead + int(binary.LittleEndian.Uint16(b[4:]))
	return b[textsHead:n:n]
}

func (t *texts) next(at uint32) uint32 { return binary.LittleEndian.Uint32(t.record(at)) }

// link makes to the document that is next to at.
func (t *texts) link(at, to uint32) { binary.LittleEndian.PutUint32(t.record(at), to) }

func (t *texts) bytes() uint64 { return uint64(len(t.chunks)) * textsChunk }
