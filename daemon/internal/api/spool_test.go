package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func newTestSpool(t *testing.T, limit int64) (*spool, *budget) {
	t.Helper()
	b := &budget{limit: limit}
	return newSpool(t.TempDir(), b, func(bool) {}), b
}

// What comes out is what went in, whatever the speeds of the two sides.
func TestSpoolKeepsOrder(t *testing.T) {
	for seed := range uint64(8) {
		source := rand.NewChaCha8([32]byte{byte(seed)})
		rng := rand.New(source)
		sp, b := newTestSpool(t, 3<<20) // small: waits for room too
		var in, out bytes.Buffer
		done := make(chan int64)
		go func() {
			done <- sp.drain(writerFunc(func(p []byte) (int, error) {
				if len(p) > 100 && seed%2 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				return out.Write(p)
			}), func() error { return nil })
		}()
		for range 60 {
			p := make([]byte, rng.IntN(400_000))
			_, _ = source.Read(p) // never fails, says its documentation
			in.Write(p)
			if err := sp.write(p); err != nil {
				t.Fatal(err)
			}
		}
		sp.end()
		if sent := <-done; sent != int64(in.Len()) || !bytes.Equal(in.Bytes(), out.Bytes()) {
			t.Errorf("seed %d: %d bytes in, %d out, equal %v", seed, in.Len(), sent, bytes.Equal(in.Bytes(), out.Bytes()))
		}
		sp.free()
		if b.used.Load() != 0 {
			t.Errorf("seed %d: %d bytes still taken", seed, b.used.Load())
		}
		if left, _ := os.ReadDir(sp.dir); len(left) != 0 {
			t.Errorf("seed %d: files left: %v", seed, left)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSpoolGivesUpOnAClientThatIsGone(t *testing.T) {
	sp, b := newTestSpool(t, 2<<20)
	block := make([]byte, 1<<20)
	broken := errors.New("broken pipe")
	for ok := true; ok; {
		var err error
		if ok, err = sp.tryWrite(block); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() { done <- sp.write(block) }() // waits for room
	sp.drain(writerFunc(func([]byte) (int, error) { return 0, broken }), func() error { return nil })
	if err := <-done; !errors.Is(err, broken) || !errors.Is(err, errClientGone) {
		t.Errorf("write: got %v, want client gone by %v", err, broken)
	}
	sp.free()
	if b.used.Load() != 0 {
		t.Errorf("%d bytes still taken", b.used.Load())
	}
}

func TestSpoolFileThatIsDrainedGivesItsSpaceBack(t *testing.T) {
	sp, b := newTestSpool(t, 100<<20)
	block := make([]byte, 1<<20)
	for range 5 {
		sp.tryWrite(block)
	}
	if got := b.used.Load(); got != 4<<20 {
		t.Errorf("%d bytes on disk, want 4 MiB", got)
	}
	piece := make([]byte, 1<<20)
	for range 5 {
		if _, err := sp.take(piece); err != nil {
			t.Fatal(err)
		}
	}
	st, err := sp.file.Stat()
	if err != nil || st.Size() != 0 || b.used.Load() != 0 || sp.len() != 0 {
		t.Errorf("drained: file of %d bytes (%v), %d taken, %d wait", st.Size(), err, b.used.Load(), sp.len())
	}
	sp.free()
}

// Spools leave room on the disk: the journal needs it more.
func TestSpoolLeavesRoomOnTheDisk(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		free, size uint64
		known      bool
		want       bool
	}{
		{0, 0, false, true}, {2 * gib, 10 * gib, true, true}, {gib, 10 * gib, true, false}, {gib + 1, 10 * gib, true, true},
		{5 * gib, 1000 * gib, true, true}, {4 * gib, 1000 * gib, true, false},
	} {
		if got := spoolRoom(test.free, test.size, test.known); got != test.want {
			t.Errorf("%d of %d free: got %v", test.free, test.size, got)
		}
	}
	if free, size, known := diskSpace(t.TempDir()); known && (size == 0 || free > size) {
		t.Errorf("%d of %d bytes are free", free, size)
	}

	// Without room a stream goes on as its client reads, and makes no file.
	r := newRig(t)
	r.api.spooled.room = func() bool { return false }
	conn := r.dial()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if err == nil {
			err = numbered(chunker{conn}, 0, 200_000)
		}
		if err == nil {
			_, err = io.WriteString(conn, "0\r\n\r\n")
		}
		sent <- err
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := lineCount(t, resp.Body, 0); got != 200_000 {
		t.Errorf("%d lines answered, want 200000", got)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if n := r.api.spooled.used.Load(); n != 0 {
		t.Errorf("%d bytes on disk", n)
	}
}

func TestTidySpool(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{spoolFile + "123", "another"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := TidySpool(dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "another" {
		t.Errorf("left: %v", left)
	}
}
