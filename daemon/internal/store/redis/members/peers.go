package members

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Several daemons share one Redis, and each knows best what it acknowledged itself. When
// Redis has lost data, one daemon's memory is not enough: an item that another daemon
// acknowledged would be new again until that one has resynced too. So every daemon leaves a
// heartbeat each second, remembers whose it has seen change, and after a loss waits for
// those, or until they are taken for dead.
const (
	// PollEvery is how often a daemon leaves a heartbeat.
	PollEvery = time.Second
	// PeerDead is how long a daemon may show no heartbeat before nobody waits for it.
	PeerDead = 10 * time.Second
	// ResyncTimeout is how long one that shows heartbeats, and is still not done, is waited for.
	ResyncTimeout = 2 * time.Minute
	// AnnouncedTTL is how long keys of a resync stay that nobody removes.
	AnnouncedTTL = 24 * time.Hour
	// forgetPeers is after how long the entry of a daemon that was killed is removed.
	forgetPeers = 10 * time.Minute
)

// peers are the other daemons. One is judged by whether its heartbeat changes while this
// daemon looks, never by the time that is in it: clocks differ, and are set.
type peers struct {
	Self      string        // the name of this daemon
	deadAfter time.Duration // PeerDead, but in tests

	mu   sync.Mutex
	seen map[string]peer
	dead map[string]bool  // earlier lives of this daemon, see members.go
	read time.Time        // when the heartbeats were last read
	beat int64            // the last one of this daemon
	Wall func() time.Time // the clock that heartbeats show to people
}

type peer struct {
	beat string
	// silent is for how long this daemon has looked and the heartbeat was the same. Time
	// in which it could not look, as Redis was away, does not count.
	silent time.Duration
	mute   bool // it was waited for, and given up
	left   bool // it has signed off, or is known to be dead: no name is used again
	killed bool // it is known to be dead, and has not signed off
}

func newPeers(self string, deadAfter time.Duration) *peers {
	return &peers{Self: self, deadAfter: deadAfter, seen: map[string]peer{}, dead: map[string]bool{}, Wall: time.Now}
}

// markDead notes which daemons are dead.
func (p *peers) markDead(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.dead[name] = true
	}
}

// unannounced lists those of members that this daemon knows to be dead, and others do not.
func (p *peers) unannounced(members map[string]string) (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.dead {
		if beat, there := members[id]; there && !strings.HasPrefix(beat, goodbye) {
			ids = append(ids, id)
		}
	}
	return ids
}

// heartbeat is the next one of this daemon: the time, for people, but never one that was.
func (p *peers) heartbeat() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = max(p.beat+1, p.Wall().UnixMilli())
	return strconv.FormatInt(p.beat, 10)
}

// note takes in the members as read from Redis, and returns those that nobody will hear of
// again. now has a monotonic reading.
func (p *peers) note(members map[string]string, now time.Time) (stale []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	looked := time.Duration(0)
	if !p.read.IsZero() {
		looked = min(now.Sub(p.read), 2*PollEvery)
	}
	p.read = now
	for id, beat := range members {
		if id == p.Self {
			continue
		}
		// Of one that is seen for the first time it is not known whether it lives: it has
		// as long to show it as one that was heard of.
		old, known := p.seen[id]
		left := strings.HasPrefix(beat, goodbye)
		switch {
		// An older file of Redis may bring back the heartbeat of one that has left.
		case known && (old.beat == beat || old.left):
			old.silent += looked
			p.seen[id] = old
		case left || p.dead[id]:
			p.seen[id] = peer{beat: beat, silent: p.deadAfter, mute: beat != killed && !p.dead[id], left: true, killed: beat == killed || p.dead[id]}
		default:
			p.seen[id] = peer{beat: beat}
		}
		if p.seen[id].silent > forgetPeers {
			stale = append(stale, id)
		}
	}
	for id, old := range p.seen {
		if _, there := members[id]; there {
			continue
		}
		// As after a flush, which it will answer with a heartbeat, if it lives.
		if old.silent += looked; old.silent > forgetPeers {
			delete(p.seen, id)
			continue
		}
		p.seen[id] = old
	}
	return stale
}

// Alive lists those that have shown a heartbeat within deadAfter, or may yet do so.
func (p *peers) Alive() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for id, peer := range p.seen {
		if peer.silent < p.deadAfter {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	return ids
}

// Away lists those that show no heartbeat, and have not signed off.
func (p *peers) Away() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for id, peer := range p.seen {
		if peer.silent >= p.deadAfter && !peer.left {
			ids = append(ids, id)
		}
	}
	return ids
}

// MayLive tells whether id is this daemon, or one that Alive lists.
func (p *peers) MayLive(id string) bool {
	return id == p.Self || slices.Contains(p.Alive(), id)
}

// Lost lists those among ids that were waited for and are dead now, each once: those that are silent, and
// those that are known to have been killed.
func (p *peers) Lost(waited map[string]bool) (silent, killed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range waited {
		peer, ok := p.seen[id]
		if !ok || peer.silent < p.deadAfter || peer.mute {
			continue
		}
		peer.mute = true
		p.seen[id] = peer
		if peer.killed {
			killed = append(killed, id)
		} else {
			silent = append(silent, id)
		}
	}
	sort.Strings(silent)
	sort.Strings(killed)
	return silent, killed
}

// goodbye begins the last heartbeat of a daemon that has stopped in order: what it
// acknowledged was in Redis, and it holds nothing that others should wait for.
const goodbye = "left "

// killed is what a daemon leaves in the place of the heartbeat of its own earlier life.
const killed = goodbye + "killed"
