package terminal

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Tasks that end soon show nothing, others a line that is not drawn all the time, and is erased in the end.
func TestProgressIsForLongTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := &Progress{w: &w, began: time.Now()}
		time.Sleep(400 * time.Millisecond)
		p.Show("%d items", 1)
		p.Clear()
		if w.Len() != 0 {
			t.Errorf("after 0.4 s: %q, want nothing", &w)
		}
		time.Sleep(600 * time.Millisecond)
		p.Show("%d items", 2)
		p.Show("%d items", 3) // too soon
		if got, want := w.String(), "\r\x1b[K2 items"; got != want {
			t.Errorf("after 1 s: %q, want %q", got, want)
		}
		time.Sleep(100 * time.Millisecond)
		w.Reset()
		p.Show("%d items", 4)
		p.Clear()
		p.Clear()
		if got, want := w.String(), "\r\x1b[K4 items\r\x1b[K"; got != want {
			t.Errorf("then: %q, want %q", got, want)
		}
	})
}

// What is no terminal, or is to be quiet, has no progress, which can be shown and erased like any other.
func TestNoProgressWithoutATerminal(t *testing.T) {
	var w bytes.Buffer
	p := NewProgress(&w, true)
	p.Show("1 item")
	p.Clear()
	if p != nil || w.Len() != 0 {
		t.Errorf("%v, %q", p, &w)
	}
}
