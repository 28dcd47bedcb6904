// Package forgotten lets daemons that share a filter in Redis tell each other which items were
// forgotten, so that no mirror reports one of them as seen any more.
//
// The items of a filter fall into groups, each in its own slot of a cluster. A group has a
// witness and a log. The witness is a key that exists as long as Redis has lost nothing of the
// group. Its value is the number of items that were ever forgotten, plus Reserved if items were
// ever reserved. The log has the last of the forgotten items. An item is removed, counted and
// logged in one step. Every batch reads the witnesses of its groups after its items. If the
// count of one has grown, the batch reads the log and queries the forgotten items again.
// Nothing has to be sent to a daemon, and so nothing can be missed.
//
// It also runs what is done with single items in the places where they are kept: scripts, which change items
// and what is known of them in one step (Work), and commands (AtPlaces). An item that is kept elsewhere, as its
// set was split, is looked for there.
//
// The package does not know where items are kept, or what a mirror contains.
package forgotten

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Groups is the number of witnesses, and of slots in a cluster. A mask has one bit for each of
// them.
const Groups = 64

// GroupOf returns the group of an item.
func GroupOf(key bloom.Hash) int { return int(key.Hi >> 58) }

// Keep is the maximum number of items in the log of a group. A daemon that is further behind
// drops all items of the group from its mirror.
const Keep = 1000

// Items are the items of a filter: their places in Redis, and their mirror.
type Items interface {
	// Place returns where to look for an item.
	Place(key bloom.Hash) Place
	// Moved reports that an item is not kept in the place where it was looked for, because the
	// key there has another type. After that, Place returns another place.
	Moved(key bloom.Hash, from Place) error
	// Drop removes keys from the mirror; DropGroup removes all keys of a group.
	Drop(keys []bloom.Hash)
	DropGroup(g int)
}

// Place is a key, and the member of it that is the item; "": the key itself is the item.
type Place struct {
	Key, Member string
	Level       uint8 // set by Items: which of the possible places of the item this is
}

// IsMoved reports whether err says that a key has another type than the command needs.
func IsMoved(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// Marks has the number of forgotten items of each group; Unknown: it is not known.
type Marks [Groups]int64

// Unknown is the mark of a group of which nothing was heard.
const Unknown = -1

// NoMarks returns marks that are Unknown for every group.
func NoMarks() (m Marks) {
	for g := range m {
		m[g] = Unknown
	}
	return m
}

// Log is the log of one filter, as far as this daemon has followed it.
type Log struct {
	servers *servers.Servers
	items   Items
	keys    [Groups]groupKeys

	mu     sync.RWMutex // write-held while the mirror drops items
	groups [Groups]group

	// reserving tells for each group whether this daemon has heard that an item of it was ever
	// reserved.
	reserving [Groups]atomic.Bool
}

type groupKeys struct{ witness, log, followed, leases string }

type group struct {
	at   int64        // Unknown until it is first read
	last []bloom.Hash // the last forgotten items, up to at; at most Keep
}

// New returns the log of a filter whose witnesses have the prefix.
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

// Tagged returns the witness of a group. All keys of the group begin with it. prefix ends in
// the middle of the hash tag.
func Tagged(prefix string, g int) string {
	return prefix + string(hexDigits[g>>4]) + string(hexDigits[g&15]) + "}"
}

// Witness returns the key that exists as long as Redis has lost nothing of group g.
func (l *Log) Witness(g int) string { return l.keys[g].witness }

// LeasesKey returns the key of the leases of group g, see package leases: forgetting an item
// also ends its lease.
func (l *Log) LeasesKey(g int) string { return l.keys[g].leases }

// Reserved is added to the witness of a group with the first lease of an item of the group, so
// that every batch that might meet a leased item hears of it. The number of forgotten items
// never gets that high.
const Reserved = 1 << 40

// Reserving reports whether this daemon has heard that an item of group g was ever reserved.
func (l *Log) Reserving(g int) bool { return l.reserving[g].Load() }

// NoteReserving notes that an item of group g was reserved.
func (l *Log) NoteReserving(g int) { l.reserving[g].Store(true) }

// Marks returns how far this daemon has followed. It must be called before the mirror is read.
func (l *Log) Marks() (m Marks) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for g := range m {
		m[g] = l.groups[g].at
	}
	return m
}

// since lists the items of a group that were forgotten since mark; ok is false if they are not
// known. l.mu must be held.
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

// Forgotten sets gone[i] to whether keys[i] was, or may have been, forgotten since marks.
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

// Unforgotten calls put with those of keys that were not forgotten since marks. All keys must have
// been in Redis when this daemon had followed to marks, or later. Nothing is dropped from the
// mirror meanwhile.
func (l *Log) Unforgotten(marks *Marks, keys []bloom.Hash, put func(keys []bloom.Hash)) {
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

// note records what was read of a group: how many items were forgotten, and the last of them.
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

// InvalidateForgotten drops from the mirror all groups of which an item was ever forgotten:
// other daemons may have gone on from a point to which this one had not followed.
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
