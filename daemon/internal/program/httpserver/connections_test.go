package httpserver

import "testing"

// All ports of a process together leave a quarter of its files to the store.
func TestPortsShareTheFiles(t *testing.T) {
	const many = 1 << 40
	files := openFiles()
	if files == 0 {
		t.Log("as many files as one likes")
		return
	}
	if one, two := Connections(many, ""), 2*Connections(many, "127.0.0.1:6380"); one > files*3/4 || two > files*3/4 || two < one/2 {
		t.Errorf("of %d files: %d at one port, %d at two", files, one, two)
	}
	if got := Connections(2, "127.0.0.1:6380"); got != 2 {
		t.Errorf("fewer than there are files for: %d", got)
	}
}
