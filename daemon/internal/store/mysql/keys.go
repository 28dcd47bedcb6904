package mysql

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// keyBytes is more than a key takes in a statement.
const keyBytes = 64

// orderedKeys is a batch: each of its keys once, in the order of the rows.
type orderedKeys struct {
	keys  []bloom.Hash
	first []int // the index of each in the caller's slice
}

// orderKeys makes an orderedKeys from keys, which may contain duplicates.
func orderKeys(keys []bloom.Hash) orderedKeys {
	at := make([]int, len(keys))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return cmp.Or(compareKeys(keys[a], keys[b]), cmp.Compare(a, b)) })
	at = slices.CompactFunc(at, func(a, b int) bool { return keys[a] == keys[b] })
	o := orderedKeys{keys: make([]bloom.Hash, len(at)), first: at}
	for i, from := range at {
		o.keys[i] = keys[from]
	}
	return o
}

// compareKeys is the order of the rows.
func compareKeys(a, b bloom.Hash) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
}

// find returns the caller's index of a key in a row from the server; -1: the batch does not have
// it.
func (o orderedKeys) find(row []byte) int {
	key, ok := keyOf(row)
	i, found := slices.BinarySearchFunc(o.keys, key, compareKeys)
	if !ok || !found {
		return -1
	}
	return o.first[i]
}

// keyOf returns the key in a row from the server.
func keyOf(row []byte) (key bloom.Hash, ok bool) {
	if len(row) != 16 {
		return key, false
	}
	return bloom.Hash{Hi: binary.BigEndian.Uint64(row), Lo: binary.BigEndian.Uint64(row[8:])}, true
}

// appendKey appends a key as a literal of SQL.
func appendKey(b []byte, key bloom.Hash) []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], key.Hi)
	binary.BigEndian.PutUint64(raw[8:], key.Lo)
	return append(hex.AppendEncode(append(b, "x'"...), raw[:]), '\'')
}

// appendKeys appends a list of keys, as IN expects it.
func appendKeys(b []byte, keys []bloom.Hash) []byte {
	for i, key := range keys {
		b = appendKey(append(b, "(,"[min(i, 1)]), key)
	}
	return append(b, ')')
}

// appendNumbers appends a list of numbers, as IN expects it.
func appendNumbers(b []byte, numbers []uint64) []byte {
	for i, n := range numbers {
		b = strconv.AppendUint(append(b, "(,"[min(i, 1)]), n, 10)
	}
	return append(b, ')')
}
