package spool

import (
	"os"
	"path/filepath"
	"testing"
)

// Spools leave room on the disk: the journal needs it more.
func TestLeavesRoomOnTheDisk(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		free, size uint64
		known      bool
		want       bool
	}{
		{0, 0, false, true}, {2 * gib, 10 * gib, true, true}, {gib, 10 * gib, true, false}, {gib + 1, 10 * gib, true, true},
		{5 * gib, 1000 * gib, true, true}, {4 * gib, 1000 * gib, true, false},
	} {
		if got := hasRoom(test.free, test.size, test.known); got != test.want {
			t.Errorf("%d of %d free: got %v", test.free, test.size, got)
		}
	}
	if free, size, known := diskSpace(t.TempDir()); known && (size == 0 || free > size) {
		t.Errorf("%d of %d bytes are free", free, size)
	}
}

func TestTidy(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{fileName + "123", "another"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Tidy(dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "another" {
		t.Errorf("left: %v", left)
	}
}
