package resp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// FuzzReader reads any bytes, in one piece and byte by byte: the commands are the same, the buffer
// stays within its bounds, and all that was taken from the budget is given back.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		"*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n", "PING\r\n", "BF.ADD a \"b c\"\n", "*-1\r\n*0\r\nPING\r\n", "*1\r\n$99\r\n", "*2\r\n*1\r\n",
		"*1\r\n$5000\r\n" + string(bytes.Repeat([]byte{'y'}, 5000)) + "\r\n*1\r\n$1\r\nz\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, why := commandsOf(t, bytes.NewReader(text))
		single, why2 := commandsOf(t, iotest.OneByteReader(bytes.NewReader(text)))
		if !slices.EqualFunc(whole, single, slices.Equal) || why.Error() != why2.Error() {
			t.Errorf("at once %q, %v; byte by byte %q, %v", whole, why, single, why2)
		}
	})
}

func commandsOf(t *testing.T, src io.Reader) (all [][]string, why error) {
	const bound, args = 64 << 10, 100
	held := 0
	rd := reader{src: src, left: -1, bytes: bound, count: args, take: func(n int) bool { held += n; return true }, give: func(n int) { held -= n }}
	rd.reset()
	defer func() {
		if len(rd.buf) > bound+inlineBytes {
			t.Errorf("a buffer of %d bytes", len(rd.buf))
		}
		if rd.release(); held != 0 {
			t.Errorf("%d bytes of the budget are held after the end", held)
		}
	}()
	for {
		ok, err := rd.next()
		for ok && err == nil {
			var words []string
			for _, a := range rd.args {
				words = append(words, string(rd.arg(a)))
			}
			all = append(all, words)
			ok, err = rd.next()
		}
		if err == nil {
			err = rd.fill()
		}
		if err != nil {
			var protocol protocolError
			if !errors.As(err, &protocol) && !errors.Is(err, io.EOF) {
				t.Errorf("an error of another kind: %v", err)
			}
			return all, err
		}
	}
}

// A connection that may hold no more memory is told so, and what it held is free again.
func TestReaderKeepsToItsBudget(t *testing.T) {
	text := append([]byte("*1\r\n$1000000\r\n"), make([]byte, 1_000_000)...)
	held := 0
	rd := reader{src: bytes.NewReader(text), left: -1, bytes: 8 << 20, count: 10,
		take: func(n int) bool {
			if held+n > 100_000 {
				return false
			}
			held += n
			return true
		}, give: func(n int) { held -= n }}
	rd.reset()
	var err error
	for err == nil {
		if _, err = rd.next(); err == nil {
			err = rd.fill()
		}
	}
	if rd.release(); !errors.Is(err, errBudget) || held != 0 {
		t.Errorf("%v, %d held", err, held)
	}
}
