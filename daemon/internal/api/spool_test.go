package api

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
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
		rng := rand.New(rand.NewPCG(seed, 1))
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
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
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
