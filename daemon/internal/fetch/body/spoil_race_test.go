//go:build race

package body

import (
	"bytes"
	"testing"
)

// Code that reads a body after it was closed finds its data gone, so that tests find such code.
func TestClosedBodyIsSpoilt(t *testing.T) {
	s := NewStore(t.TempDir(), 64<<10, 1<<20)
	for _, text := range []string{"a", string(random(firstBytes + 1))} {
		b, err := s.Keep(bytes.NewReader([]byte(text)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		whole, _, _ := b.Whole()
		if string(whole) != text {
			t.Fatalf("%d bytes: got %d others", len(text), len(whole))
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(whole, []byte{0xdb}) != len(whole) {
			t.Errorf("%d bytes: they can be read when the body is closed", len(text))
		}
	}
}
