package items

import (
	"syscall"
	"testing"
)

// TestHugeBody maps a body that is too long, without using the memory for it.
func TestHugeBody(t *testing.T) {
	body, err := syscall.Mmap(-1, 0, 1<<32, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(body); err != nil {
			t.Error(err)
		}
	}()
	var r Request
	wantError(t, r.Decode(body, Limits{}), MalformedJSON, -1)
	if e := r.Decode(body, Limits{}).(*Error); e.Offset != -1 {
		t.Errorf("offset %d, want -1: the body was not to be looked at", e.Offset)
	}
}
