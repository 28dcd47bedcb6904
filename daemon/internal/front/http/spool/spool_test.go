package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/program/diskspace"
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
	if free, size, known := diskspace.Of(t.TempDir()); known && (size == 0 || free > size) {
		t.Errorf("%d of %d bytes are free", free, size)
	}
}

// Without room a queue goes on as its client reads, and makes no file.
func TestQueueOnAFullDisk(t *testing.T) {
	folder := NewFolder(t.TempDir(), 100<<20)
	folder.space = func(string) (free, size uint64, known bool) { return 1 << 30, 100 << 30, true }
	q := folder.NewQueue(budget.Holder{}, func(bool) {})
	defer q.Free()
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // as much as waits in memory
	if ok, err := q.TryWrite(block); !ok || err != nil {
		t.Fatalf("in memory: %v, %v", ok, err)
	}
	if ok, err := q.TryWrite(block); ok || err != nil {
		t.Fatalf("on a full disk: %v, %v; want no room", ok, err)
	}
	var read bytes.Buffer
	done := make(chan int64)
	go func() { done <- q.Drain(&read, func() error { return nil }) }()
	for range 3 {
		if err := q.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	q.End()
	if sent := <-done; sent != 4<<20 || !bytes.Equal(read.Bytes(), bytes.Repeat(block, 4)) {
		t.Errorf("%d bytes sent", sent)
	}
	if q.file != nil || folder.Used() != 0 {
		t.Errorf("a file was made; %d bytes on disk", folder.Used())
	}
}

// However many answers of one token wait, those of another find room; and one alone gets all of it.
func TestQueuesOfOneTokenLeaveRoom(t *testing.T) {
	const block = 1 << 20
	folder := NewFolder(t.TempDir(), 16*block)
	folder.space = func(string) (free, size uint64, known bool) { return 0, 0, false }
	data := make([]byte, block)
	fill := func(token string) (q *Queue, onDisk int) {
		t.Helper()
		q = folder.NewQueue(budget.Holder{Token: token}, func(bool) {})
		for {
			ok, err := q.TryWrite(data)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return q, onDisk - 1 // the first one is in memory
			}
			onDisk++
		}
	}
	alone, n := fill("first")
	if n != 16 {
		t.Errorf("one answer: %d blocks on disk, want 16", n)
	}
	alone.Free()
	taken := 0
	for range 3 {
		q := folder.NewQueue(budget.Holder{Token: "first"}, func(bool) {})
		defer q.Free()
		for range 10 {
			if ok, err := q.TryWrite(data); err != nil {
				t.Fatal(err)
			} else if ok {
				taken++
			}
		}
	}
	if taken -= 3; taken != 12 {
		t.Errorf("three answers of one token: %d blocks on disk, want 12", taken)
	}
	other, n := fill("second")
	defer other.Free()
	if n != 4 {
		t.Errorf("another token: %d blocks on disk, want 4", n)
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
