package table

// A table that is loaded from a file takes no more memory than the one that was written: its parts
// are made exactly as large as their keys need, where others have room for more. So what is
// changed after the file was written finds little room, and gets some more each time; a table that
// has begun to serve grows as usual.

// replayRoom is the percentage of slots that a part leaves free when it is rebuilt during a replay.
const replayRoom = 5

// Loader puts the keys of a file, which come in order, into an empty table.
type Loader struct {
	t   *Table
	now int64
	buf []Entry // keys of one part
}

// Load begins to load the table, at the time now. It must not run concurrently with other calls,
// and ends with OnChange.
func (t *Table) Load(now int64) *Loader {
	t.leaveFree(0)
	return &Loader{t: t, now: now}
}

// leaveFree makes parts that are rebuilt leave a percentage of slots free.
func (t *Table) leaveFree(percent int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.freshLoad = p.fullLoad - percent
	}
	t.loading = true
}

// loaded ends the loading.
func (t *Table) loaded() {
	if t.loading {
		for i := range t.parts {
			t.parts[i].freshLoad = t.shape.freshLoad
		}
		t.loading = false
	}
}

// Put is Put of the table.
func (l *Loader) Put(entries ...Entry) error {
	for len(entries) > 0 {
		if len(l.buf) > 0 && l.buf[0].Key.Hi>>56 != entries[0].Key.Hi>>56 {
			if err := l.Flush(); err != nil {
				return err
			}
		}
		n := 1
		for n < len(entries) && entries[n].Key.Hi>>56 == entries[0].Key.Hi>>56 {
			n++
		}
		l.buf = append(l.buf, entries[:n]...)
		entries = entries[n:]
	}
	return nil
}

// Flush puts what is left; it is called after the last Put.
func (l *Loader) Flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	p := &l.t.parts[l.buf[0].Key.Hi>>56]
	if err := p.remake(l.t.ticks(l.now), len(l.buf), 0); err != nil {
		return err
	}
	err := l.t.Put(l.now, l.buf...)
	l.buf = l.buf[:0]
	return err
}
