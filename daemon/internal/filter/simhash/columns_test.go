package simhash

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// An id that would have no address is refused: it would be written over another one.
func TestIDsWithoutAddresses(t *testing.T) {
	full := texts{chunks: make([]mapped.Memory, maxChunks+1)}
	if _, err := full.append([]byte("a")); err == nil {
		t.Error("an id beyond all addresses was taken")
	}
	x := NewIndex(3)
	x.texts.chunks = full.chunks
	if got := x.MemoryFor(1, 1); got+1 != 0 {
		t.Errorf("room for it takes %d bytes, want more than there can be", got)
	}
}
