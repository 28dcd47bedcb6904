package terminal

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"plain, ä, 日本, 👍🏽\t\n": "plain, ä, 日本, 👍🏽\t\n",
		"\x1b[2J\x1b[H":        `\x1b[2J\x1b[H`,
		"\x1b]0;title\a":       `\x1b]0;title\x07`,
		"done\rfailed":         `done\rfailed`,
		"a\bb\x7f\x00":         `a\x08b\x7f\x00`,
		"\u009b2J":             `\u009b2J`, // a control sequence in one character
		"\x9b2J":               `\x9b2J`,   // the same as one byte
		"a\u202egnp.exe":       `a\u202egnp.exe`,
		"a\u2066b\u2069\u200f": `a\u2066b\u2069\u200f`,
		"a\u2028b":             `a\u2028b`,
		"\U000e0041":           `\U000e0041`,
		"\xff\xc3":             `\xff\xc3`,
		"\ufffd":               "\ufffd",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// What is written is the same however it is cut into pieces, and nothing in it is obeyed.
func FuzzScreen(f *testing.F) {
	f.Add("\x1b[2J ä \u202e 日本 \xff\xe6", uint8(1))
	f.Add("\xf0\x9f\x91\x8d\xf0\x9f\x91", uint8(3))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var out bytes.Buffer
		s := &screen{to: &out}
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			if wrote, err := s.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		if got, want := out.String()+Text(string(s.half)), Text(text); got != want || len(s.half) >= utf8.UTFMax {
			t.Errorf("%q in pieces of %d: %q, want %q", text, int(size)+1, got, want)
		}
		if got := Text(text); strings.ContainsFunc(got, obeyed) || !utf8.ValidString(got) || Text(got) != got {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

// A file or a pipe gets the bytes that were meant.
func TestOnlyTerminalsAreProtected(t *testing.T) {
	var out bytes.Buffer
	if w := Protect(&out); w != &out || Stream(w) != &out || Is(w) {
		t.Errorf("a buffer is not written to directly")
	}
}

// Outputs of several hosts come at the same time.
func TestWritesAtOnce(t *testing.T) {
	var out bytes.Buffer
	s := &screen{to: &out}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				if n, err := s.Write([]byte("zeile ü\x1b\n")); n != 10 || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			}
		})
	}
	all.Wait()
	if want := strings.Repeat("zeile ü\\x1b\n", 800); out.String() != want {
		t.Errorf("%d bytes, want %d", out.Len(), len(want))
	}
}
