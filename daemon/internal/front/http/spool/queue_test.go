package spool

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
)

func newQueue(t *testing.T, limit int64) *Queue {
	t.Helper()
	return NewFolder(t.TempDir(), limit).NewQueue(budget.Holder{}, func(bool) {})
}

// What comes out is what went in, whatever the speeds of the two sides.
func TestQueueKeepsOrder(t *testing.T) {
	for seed := range uint64(6) {
		source := rand.NewChaCha8([32]byte{byte(seed)})
		rng := rand.New(source)
		q := newQueue(t, 3<<20) // small, so that it also waits for room
		var in, out bytes.Buffer
		done := make(chan int64)
		go func() {
			done <- q.Drain(writerFunc(func(p []byte) (int, error) {
				if len(p) > 100 && seed%2 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				return out.Write(p)
			}), func() error { return nil })
		}()
		for range 60 {
			p := make([]byte, rng.IntN(200_000))
			_, _ = source.Read(p) // never fails, as documented
			in.Write(p)
			if err := q.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		q.End()
		if sent := <-done; sent != int64(in.Len()) || !bytes.Equal(in.Bytes(), out.Bytes()) {
			t.Errorf("seed %d: %d bytes in, %d out, equal %v", seed, in.Len(), sent, bytes.Equal(in.Bytes(), out.Bytes()))
		}
		q.Free()
		if q.folder.Used() != 0 {
			t.Errorf("seed %d: %d bytes still taken", seed, q.folder.Used())
		}
		if left, _ := os.ReadDir(q.folder.dir); len(left) != 0 {
			t.Errorf("seed %d: files left: %v", seed, left)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestQueueGivesUpOnAClientThatIsGone(t *testing.T) {
	q := newQueue(t, 2<<20)
	block := make([]byte, 1<<20)
	broken := errors.New("broken pipe")
	for ok := true; ok; {
		var err error
		if ok, err = q.TryWrite(block); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() { done <- q.Write(block) }() // waits for room
	q.Drain(writerFunc(func([]byte) (int, error) { return 0, broken }), func() error { return nil })
	if err := <-done; !errors.Is(err, broken) || !errors.Is(err, ErrClientGone) {
		t.Errorf("write: got %v, want client gone by %v", err, broken)
	}
	q.Free()
	if q.folder.Used() != 0 {
		t.Errorf("%d bytes still taken", q.folder.Used())
	}
}

func TestFileThatIsDrainedGivesItsSpaceBack(t *testing.T) {
	q := newQueue(t, 100<<20)
	block := make([]byte, 1<<20)
	for range 5 {
		q.TryWrite(block)
	}
	if got := q.folder.Used(); got != 4<<20 {
		t.Errorf("%d bytes on disk, want 4 MiB", got)
	}
	piece := make([]byte, 1<<20)
	for range 5 {
		if _, err := q.dequeue(piece); err != nil {
			t.Fatal(err)
		}
	}
	st, err := q.file.Stat()
	if err != nil || st.Size() != 0 || q.folder.Used() != 0 || q.Len() != 0 {
		t.Errorf("drained: file of %d bytes (%v), %d taken, %d wait", st.Size(), err, q.folder.Used(), q.Len())
	}
	q.Free()
}
