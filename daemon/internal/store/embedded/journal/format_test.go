package journal

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHeaderVector(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "header.hex"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	h := header{seq: 7, generation: 2, mark: 0x1112131415161718, size: 1 << 20, sync: Interval, width: 2, ordered: true}
	if got := h.encode(); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got, err := decodeHeader(want); err != nil || got != h {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
}
