package simhash

import (
	"encoding/binary"
	"unsafe"
)

// column is a list that grows without being copied.
type column[T any] struct {
	chunks [][]T
	n      int
}

const chunkLength = 1 << 14

func (c *column[T]) append(v T) {
	if c.n%chunkLength == 0 {
		c.chunks = append(c.chunks, make([]T, chunkLength))
	}
	c.chunks[c.n/chunkLength][c.n%chunkLength] = v
	c.n++
}

func (c *column[T]) at(i uint32) T { return c.chunks[i/chunkLength][i%chunkLength] }

func (c *column[T]) bytes() uint64 {
	var v T
	return uint64(len(c.chunks)) * chunkLength * uint64(unsafe.Sizeof(v))
}

// texts keeps the ids of documents, each with the address of the next document with the same
// fingerprint: 4 bytes for that address, 2 for the length, and the id. Addresses count units of
// 4 bytes, so that 16 GiB can be addressed.
type texts struct {
	chunks [][]byte
	used   int // of the last chunk
}

const (
	none       = uint32(1<<32 - 1) // the address of nothing
	unit       = 4
	textsChunk = 1 << 20
	textsHead  = 6
)

// append adds an id and returns its address. No document is next to it yet.
func (t *texts) append(id []byte) uint32 {
	size := (textsHead + len(id) + unit - 1) / unit * unit
	if len(t.chunks) == 0 || t.used+size > textsChunk {
		t.chunks = append(t.chunks, make([]byte, textsChunk))
		t.used = 0
	}
	chunk := len(t.chunks) - 1
	at := uint32((chunk*textsChunk + t.used) / unit)
	b := t.chunks[chunk][t.used:]
	binary.LittleEndian.PutUint32(b, none)
	binary.LittleEndian.PutUint16(b[4:], uint16(len(id)))
	copy(b[textsHead:], id)
	t.used += size
	return at
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
