package testserver

import (
	"net"
	"testing"
)

// TestFree checks that an address belongs to a test until that ends, whether or not a server listens.
func TestFree(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("test", func(t *testing.T) {
		addr = Free(t)
		if claim(t, addr) {
			t.Errorf("%s is another's before a server listens there", addr)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if claim(t, addr) {
			t.Errorf("%s is another's when the server has ended", addr)
		}
	})
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if claim(t, addr) {
		t.Errorf("%s is taken, where a server listens", addr)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !claim(t, addr) {
		t.Errorf("%s is not free after the test", addr)
	}
}
