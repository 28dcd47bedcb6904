// Package rowkey writes the keys of items in SQL, reads them from rows, and sorts those of a
// batch in the order of the rows. It contacts no server.
package rowkey

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Bytes is more than a key takes in a statement.
const Bytes = 64

// Ordered is a batch: each of its keys once, in order.
type Ordered struct {
	Keys  []bloom.Hash
	First []int // the index of each in the caller's slice
}

// Order makes an Ordered from keys, which may contain duplicates.
func Order(keys []bloom.Hash) Ordered {
	at := make([]int, len(keys))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return cmp.Or(Compare(keys[a], keys[b]), cmp.Compare(a, b)) })
	at = slices.CompactFunc(at, func(a, b int) bool { return keys[a] == keys[b] })
	o := Ordered{Keys: make([]bloom.Hash, len(at)), First: at}
	for i, from := range at {
		o.Keys[i] = keys[from]
	}
	return o
}

// Compare is the order of the rows.
func Compare(a, b bloom.Hash) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) }

// Find returns the caller's index of a key in a row from the server; -1: the batch does not have
// it.
func (o Ordered) Find(row []byte) int {
	key, ok := Of(row)
	i, found := slices.BinarySearchFunc(o.Keys, key, Compare)
	if !ok || !found {
		return -1
	}
	return o.First[i]
}

// Of returns the key in a row from the server.
func Of(row []byte) (key bloom.Hash, ok bool) {
	if len(row) != 16 {
		return key, false
	}
	return bloom.Hash{Hi: binary.BigEndian.Uint64(row), Lo: binary.BigEndian.Uint64(row[8:])}, true
}

// Append appends a key as a literal of SQL.
func Append(b []byte, key bloom.Hash) []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], key.Hi)
	binary.BigEndian.PutUint64(raw[8:], key.Lo)
	return append(hex.AppendEncode(append(b, "x'"...), raw[:]), '\'')
}

// AppendList appends a list of keys, as IN expects it.
func AppendList(b []byte, keys []bloom.Hash) []byte {
	for i, key := range keys {
		b = Append(append(b, "(,"[min(i, 1)]), key)
	}
	return append(b, ')')
}

// AppendNumbers appends a list of numbers, as IN expects it.
func AppendNumbers(b []byte, numbers []uint64) []byte {
	for i, n := range numbers {
		b = strconv.AppendUint(append(b, "(,"[min(i, 1)]), n, 10)
	}
	return append(b, ')')
}
