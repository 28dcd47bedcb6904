package body

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestKeep(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir, 100<<10, 1<<20)
	for _, size := range []int{0, 1, firstBytes - 1, firstBytes, firstBytes + 1, 100<<10 - 1, 100 << 10, 100<<10 + 1, 500 << 10} {
		want := random(size)
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(want), "by halves": iotest.HalfReader(bytes.NewReader(want)), "with the end": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			b, err := s.Keep(r, int64(size))
			if err != nil {
				t.Fatalf("%d bytes, %s: %v", size, name, err)
			}
			for range 2 { // and again from the start
				if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, %s: read %d and %v", size, name, len(got), err)
				}
				if _, err := b.Seek(0, io.SeekStart); err != nil {
					t.Error(err)
				}
			}
			if b.Size() != int64(size) || b.SHA256() != sha256.Sum256(want) {
				t.Errorf("%d bytes, %s: size %d, hash %x", size, name, b.Size(), b.SHA256())
			}
			if size < 100<<10 != b.InMemory() && size != 100<<10 {
				t.Errorf("%d bytes, %s: in memory %t", size, name, b.InMemory())
			}
			if err := errors.Join(b.Close(), b.Close()); err != nil {
				t.Error(err)
			}
			if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
				t.Errorf("read of a closed body: %v", err)
			}
		}
	}
	empty(t, s, dir)
}

// empty checks that nothing is left in memory and on disk.
func empty(t *testing.T, s *Store, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || s.Held() != 0 {
		t.Errorf("left: files %v (%v), %d bytes of memory", left, err, s.Held())
	}
}

func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir, 64<<10, 1<<20)
	for _, limit := range []int{0, 1, firstBytes, 64 << 10, 64<<10 + 1, 300 << 10} {
		b, err := s.Keep(io.LimitReader(endless{}, 1<<40), int64(limit))
		if b != nil || !errors.Is(err, ErrTooLarge) {
			t.Errorf("limit %d: got %v and %v", limit, b, err)
		}
	}
	empty(t, s, dir)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// When the memory for all bodies is used up, further ones go to files, however small.
func TestMemoryOfAll(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir, 64<<10, 3*firstBytes)
	var bodies []*Body
	for range 6 {
		b, err := s.Keep(bytes.NewReader([]byte("small")), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, b)
	}
	inMemory := 0
	for _, b := range bodies {
		if b.InMemory() {
			inMemory++
		}
		if text, err := io.ReadAll(b); err != nil || string(text) != "small" {
			t.Errorf("got %q and %v", text, err)
		}
	}
	if inMemory != 3 || s.Held() != 3*firstBytes {
		t.Errorf("%d bodies in memory, which hold %d bytes; want 3 and %d", inMemory, s.Held(), 3*firstBytes)
	}
	for _, b := range bodies {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	empty(t, s, dir)
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	s := NewStore(dir, 64<<10, 1<<20)
	for _, size := range []int64{0, 10, 500 << 10} {
		b, err := s.Keep(io.MultiReader(io.LimitReader(endless{}, size), iotest.ErrReader(broken)), 1<<20)
		if b != nil || !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v and %v", size, b, err)
		}
	}
	empty(t, s, dir)
	var failed *StorageError
	gone := NewStore(filepath.Join(dir, "gone"), 64<<10, 1<<20)
	if _, err := gone.Keep(io.LimitReader(endless{}, 100<<10), 1<<20); !errors.As(err, &failed) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
	empty(t, gone, dir)
}

// A body in memory is available whole, as sent and with its hash, until it is closed; one in a file is not.
func TestWhole(t *testing.T) {
	s := NewStore(t.TempDir(), 100<<10, 1<<20)
	for _, size := range []int{0, 1, firstBytes + 1, 99 << 10, 500 << 10} {
		want := random(size)
		b, err := s.Keep(bytes.NewReader(want), int64(size))
		if err != nil {
			t.Fatal(err)
		}
		if got, sum, ok := b.Whole(); ok != b.InMemory() || ok && (!bytes.Equal(got, want) || sum != sha256.Sum256(want)) {
			t.Errorf("%d bytes: %d, hash %x, %t", size, len(got), sum, ok)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, _, ok := b.Whole(); ok {
			t.Errorf("%d bytes: whole when it is closed", size)
		}
	}
}

// Memory of closed bodies is reused for new ones, which contain none of the old data.
func TestBuffersAreClean(t *testing.T) {
	s := NewStore(t.TempDir(), 256<<10, 1<<20)
	for i := range 20 {
		for j, size := range []int{200 << 10, 1, 40 << 10, 0, firstBytes, 300 << 10, 7} {
			want := bytes.Repeat([]byte{byte(10*i + j)}, size)
			b, err := s.Keep(bytes.NewReader(want), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, want) || b.SHA256() != sha256.Sum256(want) {
				t.Fatalf("%d bytes: got %d others, %v", size, len(got), err)
			}
			if err := errors.Join(b.Close(), b.Close()); err != nil { // the second one gives nothing back
				t.Fatal(err)
			}
		}
	}
	b1, err1 := s.Keep(bytes.NewReader([]byte("one")), 100)
	b2, err2 := s.Keep(bytes.NewReader([]byte("two")), 100)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	one, err1 := io.ReadAll(b1)
	two, err2 := io.ReadAll(b2)
	if string(one) != "one" || string(two) != "two" || err1 != nil || err2 != nil {
		t.Errorf("two at once: %q and %q, %v, %v", one, two, err1, err2)
	}
	if err := errors.Join(b1.Close(), b2.Close()); err != nil || s.Held() != 0 {
		t.Errorf("%d bytes are held, %v", s.Held(), err)
	}
}
