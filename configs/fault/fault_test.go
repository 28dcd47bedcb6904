package fault

import (
	"errors"
	"io/fs"
	"testing"
	"time"
)

func TestList(t *testing.T) {
	var l List
	l.Text("a", "")
	l.OneOf("b", "x", "x", "y")
	l.AtLeast("c", time.Second, time.Second)
	l.Between("d", 2, 1, 2)
	if len(l) != 0 {
		t.Errorf("faults of good values: %v", l)
	}
	l.Text("a", "100%s")
	l.OneOf("b", "z", "x", "y")
	l.AtLeast("c", time.Millisecond, time.Second)
	l.Between("d", 3, 1, 2)
	l.Add("e", "%w", fs.ErrNotExist)
	err := errors.Join(l...)
	want := "a: 100%s\nb: \"z\": want x or y\nc: 1ms: want 1s or more\nd: 3: want 1 to 2\ne: file does not exist"
	if err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %s", err, want)
	}
}
