package table

import "github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"

// Remove makes keys new again, and returns how many of them were seen at the time now; of equal
// keys in a call only the first counts. A reserved key is lost to its reservation. A part that
// needs no more than half of its memory is made smaller.
func (t *Table) Remove(keys []bloom.Hash, now int64) (n int) {
	g := t.group(keys)
	defer t.scratch.Put(g)
	ticks := t.ticks(now)
	for l := range t.lock {
		t.removeGroup(l, g, ticks)
		n += g.count
	}
	return n
}

// removeGroup removes the keys of one lock.
func (t *Table) removeGroup(l int, g *group, now uint64) {
	g.count, g.entries = 0, g.entries[:0]
	keys, _ := g.of(l)
	if len(keys) == 0 {
		return
	}
	mark := t.mark(now, now)
	t.lock[l].Lock()
	defer t.lock[l].Unlock()
	for len(keys) > 0 {
		ahead := keys[:min(touched, len(keys))]
		keys = keys[len(ahead):]
		t.touch(ahead, true)
		for _, key := range ahead {
			p := &t.parts[key.Hi>>56]
			at, was := p.find(t.shape.split(key))
			ended := t.held[l] != nil && t.unhold(key)
			switch {
			case was > now:
				p.remove(at, was, now)
				g.count++
			case !ended: // Sweep removes expired ones
				continue
			}
			g.entries = append(g.entries, key, mark)
		}
	}
	if len(g.entries) == 0 {
		return
	}
	if t.onChange != nil {
		t.onChange(g.entries)
	}
	for i := l * share; i < (l+1)*share; i++ {
		p := &t.parts[i]
		// If the system has no memory for a smaller table, it stays as it is.
		_ = p.shrink(now, p.used-p.dead, len(p.mem)/2)
	}
}
