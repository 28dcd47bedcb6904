package exact

import (
	"encoding/binary"
	"strconv"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// An item is a member of a set: Lo of its hash as a signed number, of 8 bytes in a set that is
// encoded as integers. The set is determined by the first twelve bits of Hi and, since sets that
// become too large are split into four by the lowest bits of their members, by two bits of Lo for
// each split above it. So 76 of the 128 bits tell items apart.
//
// The set of a node that is split becomes a string, in the same step in which its members go to
// the four nodes below it. It never becomes a set again. A daemon that asks it nevertheless gets
// an error, nothing is done, and it asks one of the four.
const (
	rootBits = 12
	roots    = 1 << rootBits
	fanBits  = 2
	fan      = 1 << fanBits
	// deepest is the level of sets that are not split any more: there are 2^26 of them, and
	// beyond 3e10 items their encoding takes more memory.
	deepest = 7
)

// node is the place of a set: its root and the bits of Lo by which it was split off.
type node struct {
	root  uint16
	path  uint16
	level uint8
}

// nodeOf returns the node of an item at a level, from the base on.
func (t *tree) nodeOf(key bloom.Hash, level uint8) node {
	below := fanBits * t.base
	path := uint16(key.Hi<<rootBits>>(64-below)) | uint16(key.Lo)&(1<<(fanBits*(level-t.base))-1)<<below
	return node{root: rootOf(key), path: path, level: level}
}

func rootOf(key bloom.Hash) uint16 { return uint16(key.Hi >> (64 - rootBits)) }

// child is the i-th of the nodes into which n is split.
func (n node) child(i int) node {
	return node{root: n.root, path: n.path | uint16(i)<<(fanBits*n.level), level: n.level + 1}
}

func (n node) group() int { return int(n.root >> (rootBits - 6)) }

// appendKey appends the key of the node: after the hash tag a digit for the level, the rest of
// the root, and the path, in as many bytes as it needs.
func (n node) appendKey(dst []byte, prefix string) []byte {
	dst = append(dst, forgotten.Tagged(prefix, n.group())...)
	dst = append(dst, '0'+n.level, byte(n.root&(roots/forgotten.Groups-1)))
	switch bits := fanBits * n.level; {
	case bits == 0:
		return dst
	case bits <= 8:
		return append(dst, byte(n.path))
	}
	return binary.BigEndian.AppendUint16(dst, n.path)
}

// number returns the member that an item is.
func (t *tree) number(key bloom.Hash) int64 {
	if t.fingerprints {
		return int64(int32(key.Lo))
	}
	return int64(key.Lo)
}

func (t *tree) member(key bloom.Hash) string { return strconv.FormatInt(t.number(key), 10) }

// tree has the nodes that this daemon knows to be split. Only what a server that is in sync has
// said may be noted.
type tree struct {
	base         uint8 // the level from which on there are sets; above it, all nodes count as split
	fingerprints bool  // members are Lo's low 32 bits

	split [deepest]atomic.Pointer[[]atomic.Uint64] // bits by level; nil: none
}

func (n node) index() uint32 { return uint32(n.root) | uint32(n.path)<<rootBits }

func (t *tree) isSplit(n node) bool {
	if n.level >= deepest || n.level < t.base {
		return n.level < t.base
	}
	bits := t.split[n.level].Load()
	i := n.index()
	return bits != nil && (*bits)[i/64].Load()>>(i%64)&1 != 0
}

// note notes that n is split. The bits of the largest level take 2 MiB.
func (t *tree) note(n node) {
	p := &t.split[n.level]
	bits := p.Load()
	for bits == nil {
		made := make([]atomic.Uint64, roots<<(fanBits*n.level)/64)
		p.CompareAndSwap(nil, &made)
		bits = p.Load()
	}
	i := n.index()
	(*bits)[i/64].Or(1 << (i % 64))
}

// forget forgets all splits, for a Redis that may have gone back to before one.
func (t *tree) forget() {
	for l := range t.split {
		t.split[l].Store(nil)
	}
}

// leaf returns where an item is, as far as is known.
func (t *tree) leaf(key bloom.Hash) node {
	n := t.nodeOf(key, t.base)
	for t.isSplit(n) {
		n = t.nodeOf(key, n.level+1)
	}
	return n
}
