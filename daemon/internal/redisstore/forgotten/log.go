// Package forgotten has what daemons that share a filter in Redis tell each other of items that
// were forgotten, so that no mirror calls one of them seen any more.
//
// The items of a filter fall into groups, each in a slot of its own of a cluster. A group has
// a witness, a key that is there as long as Redis has lost nothing of the group, whose value
// is the number of items that were ever forgotten, plus Reserved where items were ever reserved;
// and a log with the last of them. An item
// is taken out, counted and logged in one step. Every batch reads the witnesses of its groups
// behind its items. Where one has counted on, the batch reads the log and asks once more
// for what was forgotten: nothing has to be sent to a daemon, and so nothing can be missed.
//
// It does not know where items are kept, or what a mirror has.
package forgotten

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// Groups is the number of witnesses, and of slots in a cluster: a mask has them all.
const Groups = 64

// GroupOf is the group of an item.
func GroupOf(key bloom.Hash) int { return int(key.Hi >> 58) }

// Keep is how many items the log of a group has at most. A daemon that is more behind drops
// what its mirror has of the group.
const Keep = 1000

// Items are those of a filter: where they are in Redis, and the mirror of them.
type Items interface {
	// Place says where an item is looked for.
	Place(key bloom.Hash) Place
	// Moved is told that an item is not kept in the place that was asked for it, whose key
	// is of another type: Place then names another one.
	Moved(key bloom.Hash, from Place) error
	// Drop takes keys out of the mirror, DropGroup all of a group.
	Drop(keys []bloom.Hash)
	DropGroup(g int)
}

// Place is a key, and the member of it that an item is; "": the key is the item.
type Place struct {
	Key, Member string
	Level       uint8 // of Items: which place of those that the item may have
}

// IsMoved tells the error of a key that is of another type than what was done to it.
func IsMoved(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// Marks tell of each group how many of its items were forgotten; Unknown: it is not known.
type Marks [Groups]int64

// Unknown is the mark of a group that was not heard of.
const Unknown = -1

// NoMarks knows of no group.
func NoMarks() (m Marks) {
	for g := range m {
		m[g] = Unknown
	}
	return m
}

// Log is one filter's, as far as this daemon has followed it.
type Log struct {
	servers *servers.Servers
	items   Items
	keys    [Groups]groupKeys

	mu     sync.RWMutex // write-held while the mirror drops items
	groups [Groups]group

	// reserving are the groups of which an item was ever reserved, as far as was heard.
	reserving [Groups]atomic.Bool
}

type groupKeys struct{ witness, log, followed, leases string }

type group struct {
	at   int64        // Unknown until it was read first
	last []bloom.Hash // that were forgotten last, up to at; Keep at most
}

// New is the log of a filter whose witnesses have the prefix.
func New(s *servers.Servers, prefix string, items Items) *Log {
	l := &Log{servers: s, items: items}
	for g := range Groups {
		w := Tagged(prefix, g)
		l.keys[g] = groupKeys{witness: w, log: w + ":forgotten", followed: w + ":followed", leases: w + ":leases"}
		l.groups[g].at = Unknown
	}
	return l
}

const hexDigits = "0123456789abcdef"

// Tagged is the witness of a group, with which all keys of the group begin; prefix ends in the
// middle of the hash tag.
func Tagged(prefix string, g int) string {
	return prefix + string(hexDigits[g>>4]) + string(hexDigits[g&15]) + "}"
}

// Witness is the key that is there as long as Redis has lost nothing of group g.
func (l *Log) Witness(g int) string { return l.keys[g].witness }

// LeasesKey is the key of the leases of group g, see package leases: who forgets an item ends its
// lease.
func (l *Log) LeasesKey(g int) string { return l.keys[g].leases }

// Reserved is what is added to the witness of a group with the first lease of an item of it, so
// that every batch hears of it that might meet one. So many items are never forgotten.
const Reserved = 1 << 40

// Reserving tells whether an item of group g was ever reserved, as far as was heard.
func (l *Log) Reserving(g int) bool { return l.reserving[g].Load() }

// NoteReserving is for who has reserved an item of group g.
func (l *Log) NoteReserving(g int) { l.reserving[g].Store(true) }

// Marks is how far this daemon has followed. It is asked before the mirror is.
func (l *Log) Marks() (m Marks) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for g := range m {
		m[g] = l.groups[g].at
	}
	return m
}

// since lists what was forgotten of a group since mark; false where that is not known. l.mu
// is held.
func (l *Log) since(g int, mark int64) (keys []bloom.Hash, ok bool) {
	at, last := l.groups[g].at, l.groups[g].last
	if mark == at {
		return nil, true
	}
	if mark == Unknown || mark > at || at-mark > int64(len(last)) {
		return nil, false
	}
	return last[int64(len(last))-(at-mark):], true
}

// Forgotten sets gone for those of keys that were forgotten since marks, or may have been.
func (l *Log) Forgotten(marks *Marks, keys []bloom.Hash, gone []bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.forgotten(marks, keys, gone)
}

func (l *Log) forgotten(marks *Marks, keys []bloom.Hash, gone []bool) {
	clear(gone)
	var changed [Groups]map[bloom.Hash]bool
	var lost [Groups]bool
	any := false
	for g := range Groups {
		if marks[g] == l.groups[g].at && marks[g] != Unknown {
			continue
		}
		any = true
		last, ok := l.since(g, marks[g])
		lost[g], changed[g] = !ok, make(map[bloom.Hash]bool, len(last))
		for _, key := range last {
			changed[g][key] = true
		}
	}
	if !any {
		return
	}
	for i, key := range keys {
		g := GroupOf(key)
		gone[i] = lost[g] || changed[g][key]
	}
}

// Learn calls put with those of keys that were in Redis when this daemon had followed to
// marks, or later, and were not forgotten since. Nothing is dropped from the mirror meanwhile.
func (l *Log) Learn(marks *Marks, keys []bloom.Hash, put func(keys []bloom.Hash)) {
	if len(keys) == 0 {
		return
	}
	gone := make([]bool, len(keys))
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.forgotten(marks, keys, gone)
	there := make([]bloom.Hash, 0, len(keys))
	for i, key := range keys {
		if !gone[i] {
			there = append(there, key)
		}
	}
	put(there)
}

// note takes in what was read of a group: how many were forgotten, and the last of them.
func (l *Log) note(g int, at int64, last []bloom.Hash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := &l.groups[g]
	if at <= have.at { // another batch was quicker
		return
	}
	if n := at - have.at; have.at == Unknown || n > int64(len(last)) {
		l.items.DropGroup(g)
		have.last = last
	} else {
		last = last[int64(len(last))-n:]
		l.items.Drop(last)
		have.last = append(have.last, last...)
	}
	if extra := len(have.last) - Keep; extra > 0 {
		have.last = append([]bloom.Hash(nil), have.last[extra:]...)
	}
	have.at = at
}

// InvalidateForgotten drops what the mirror has of groups of which something was ever forgotten: other
// daemons may have gone on from where this one had not followed.
func (l *Log) InvalidateForgotten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for g := range l.groups {
		if l.groups[g].at > 0 {
			l.items.DropGroup(g)
			l.groups[g] = group{at: Unknown}
		}
	}
}
