// Package body stores what a server has sent, decompressed and within bounds: a little of it
// in memory, the rest in unnamed files. It opens no connections, and of HTTP it knows only
// the content codings.
package body

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
)

// ErrTooLarge is the error for a body that is longer than the limit.
var ErrTooLarge = errors.New("the body is longer than the limit")

// StorageError is the error for a body that could not be stored here. It is never the
// server's fault.
type StorageError struct{ Err error }

func (e *StorageError) Error() string { return "keep the body in a file: " + e.Err.Error() }

// Unwrap returns the error of the file.
func (e *StorageError) Unwrap() error { return e.Err }

// Store stores bodies. Its methods may be called by several goroutines.
type Store struct {
	dir  string
	each int64
	all  int64
	held atomic.Int64 // bytes of memory in all bodies
	free buffers
}

// NewStore makes a Store. A body of more than each bytes is stored in a file in dir, and so is
// a smaller one while all bodies together hold more than all bytes of memory. dir is "" for
// the system's folder of temporary files.
func NewStore(dir string, each, all int64) *Store { return &Store{dir: dir, each: each, all: all} }

// Held is how many bytes of memory open bodies hold.
func (s *Store) Held() int64 { return s.held.Load() }

// Body is a complete body. Its methods are for one goroutine at a time.
type Body struct {
	store *Store
	at    io.ReadSeeker // of memory or file
	taken int64         // bytes of the store's memory
	mem   []byte        // all of it, if it is in memory
	file  *os.File
	named bool // the file still has a name, which Close removes
	size  int64
	sum   [sha256.Size]byte
}

// Read continues to read.
func (b *Body) Read(p []byte) (int, error) { return b.at.Read(p) }

// Seek sets the position of Read.
func (b *Body) Seek(offset int64, whence int) (int64, error) { return b.at.Seek(offset, whence) }

// Size is the length in bytes.
func (b *Body) Size() int64 { return b.size }

// SHA256 is the hash of the body.
func (b *Body) SHA256() [sha256.Size]byte { return b.sum }

// Whole returns all of a body that is in memory, with its SHA-256. Nobody may change it, or use
// it after the body was closed. ok is false for a body in a file, and for a closed one.
func (b *Body) Whole() (whole []byte, sum [sha256.Size]byte, ok bool) {
	return b.mem, b.sum, b.mem != nil
}

// InMemory reports whether the body is held in memory.
func (b *Body) InMemory() bool { return b.file == nil }

// Close releases memory or file. It may be called repeatedly.
func (b *Body) Close() error {
	b.store.held.Add(-b.taken)
	b.store.free.give(b.mem)
	b.taken, b.at, b.mem = 0, closed{}, nil
	file := b.file
	if b.file = nil; file == nil {
		return nil
	}
	err := file.Close()
	if b.named {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

type closed struct{}

func (closed) Read([]byte) (int, error)       { return 0, os.ErrClosed }
func (closed) Seek(int64, int) (int64, error) { return 0, os.ErrClosed }

// Keep reads r to its end. If the body is longer than limit bytes, it keeps nothing and returns
// ErrTooLarge. An error of r is returned unchanged, one of the file as a *StorageError.
func (s *Store) Keep(r io.Reader, limit int64) (*Body, error) {
	k := keeping{b: &Body{store: s}, sum: sha256.New()}
	err := k.read(r, limit)
	if err == nil {
		err = k.finish()
	}
	if err != nil {
		k.b.at = closed{}
		return nil, errors.Join(err, storage(k.b.Close()))
	}
	return k.b, nil
}

type keeping struct {
	b   *Body
	mem []byte
	sum hash.Hash
}

func (k *keeping) read(r io.Reader, limit int64) error {
	var chunk []byte // the buffer for writing to a file
	for {
		var into []byte
		if k.b.file == nil && len(k.mem) == cap(k.mem) {
			if err := k.grow(limit); err != nil {
				return err
			}
		}
		if k.b.file == nil {
			into = k.mem[len(k.mem):cap(k.mem)]
		} else {
			if chunk == nil {
				chunk = make([]byte, 64<<10)
			}
			into = chunk
		}
		n, err := r.Read(into)
		if k.b.size += int64(n); k.b.size > limit {
			return ErrTooLarge
		}
		k.sum.Write(into[:n])
		if k.b.file == nil {
			k.mem = k.mem[:len(k.mem)+n]
		} else if _, err := k.b.file.Write(into[:n]); err != nil {
			return storage(err)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow doubles the memory, or switches to a file if that would exceed the bound.
func (k *keeping) grow(limit int64) error {
	have := int64(cap(k.mem))
	want := min(max(2*have, firstBytes), k.b.store.each, limit+1) // one more byte, to detect the end
	if more := want - have; more > 0 {
		if k.b.store.held.Add(more) <= k.b.store.all {
			k.b.taken += more
			mem := k.b.store.free.borrow(want)[:len(k.mem)]
			copy(mem, k.mem)
			k.b.store.free.give(k.mem)
			k.mem = mem
			return nil
		}
		k.b.store.held.Add(-more)
	}
	file, err := os.CreateTemp(k.b.store.dir, "body-*")
	if err != nil {
		return storage(err)
	}
	// A file without a name disappears after a crash. Windows removes no open files.
	k.b.file, k.b.named = file, os.Remove(file.Name()) != nil
	if _, err := file.Write(k.mem); err != nil {
		return storage(err)
	}
	k.b.store.held.Add(-k.b.taken)
	k.b.store.free.give(k.mem)
	k.mem, k.b.taken = nil, 0
	return nil
}

func (k *keeping) finish() error {
	k.sum.Sum(k.b.sum[:0])
	if k.b.file == nil {
		k.b.mem, k.b.at = k.mem, bytes.NewReader(k.mem)
		return nil
	}
	k.b.at = k.b.file
	_, err := k.b.file.Seek(0, io.SeekStart)
	return storage(err)
}

func storage(err error) error {
	if err == nil {
		return nil
	}
	return &StorageError{err}
}

// CodingError is the error for a content coding that is unknown or was violated.
type CodingError struct {
	Coding string
	Err    error
}

func (e *CodingError) Error() string { return fmt.Sprintf("coding %.40q: %v", e.Coding, e.Err) }

// Unwrap returns the error of the decoder.
func (e *CodingError) Unwrap() error { return e.Err }

// buffers keeps the memory of closed bodies for new ones, by its size: a power of two. Most pages fit
// in the first two or three sizes. Without it, this memory is most of what a download allocates.
type buffers [bufferSizes]sync.Pool // of *[]byte

const (
	firstBytes  = 16 << 10 // the smallest size: memory starts with it, and then doubles
	bufferSizes = 7        // up to 1 MiB
)

// size is the index of a size, -1 if no buffer has so many bytes.
func (b *buffers) size(n int64) int {
	i := bits.TrailingZeros64(uint64(n)) - bits.TrailingZeros64(firstBytes)
	if n != firstBytes<<max(i, 0) || i >= len(b) {
		return -1
	}
	return i
}

// borrow returns memory of n bytes, with old contents.
func (b *buffers) borrow(n int64) []byte {
	if i := b.size(n); i >= 0 {
		if old, ok := b[i].Get().(*[]byte); ok {
			return *old
		}
	}
	return make([]byte, n)
}

// give takes back memory that is no longer used.
func (b *buffers) give(mem []byte) {
	mem = mem[:cap(mem)]
	spoil(mem)
	if i := b.size(int64(len(mem))); i >= 0 {
		b[i].Put(&mem)
	}
}
