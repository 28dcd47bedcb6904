package resp

import (
	"math"
	"strconv"
	"strings"
)

// writer appends answers in the version of the protocol that the client has chosen.
type writer struct {
	out   []byte
	proto int    // 2 or 3
	code  string // of the last error, "error" if it has none; "": there was none
}

func (w *writer) head(kind byte, n int64) {
	w.out = append(w.out, kind)
	w.out = strconv.AppendInt(w.out, n, 10)
	w.out = append(w.out, '\r', '\n')
}

func (w *writer) integer(n int64) { w.head(':', n) }
func (w *writer) array(n int)     { w.head('*', int64(n)) }
func (w *writer) simple(s string) { w.out = append(append(append(w.out, '+'), s...), '\r', '\n') }
func (w *writer) ok()             { w.out = append(w.out, "+OK\r\n"...) }
func (w *writer) text(s string) {
	w.head('$', int64(len(s)))
	w.out = append(append(w.out, s...), '\r', '\n')
}
func (w *writer) bulk(b []byte) {
	w.head('$', int64(len(b)))
	w.out = append(append(w.out, b...), '\r', '\n')
}

// fail appends an error, in one line. Its first word is what clients branch on.
func (w *writer) fail(text string) {
	w.code = "error"
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	w.out = append(append(append(w.out, '-'), line...), '\r', '\n')
}

// bool appends a truth, which is 0 or 1 in version 2.
func (w *writer) bool(is bool) {
	switch {
	case w.proto == 3 && is:
		w.out = append(w.out, "#t\r\n"...)
	case w.proto == 3:
		w.out = append(w.out, "#f\r\n"...)
	case is:
		w.out = append(w.out, ":1\r\n"...)
	default:
		w.out = append(w.out, ":0\r\n"...)
	}
}

// bit appends 0 or 1, in either version.
func (w *writer) bit(is bool) {
	if is {
		w.out = append(w.out, ":1\r\n"...)
	} else {
		w.out = append(w.out, ":0\r\n"...)
	}
}

// dict begins a map of n pairs, which is a flat array in version 2.
func (w *writer) dict(n int) {
	if w.proto == 3 {
		w.head('%', int64(n))
		return
	}
	w.array(2 * n)
}

func (w *writer) null() {
	if w.proto == 3 {
		w.out = append(w.out, "_\r\n"...)
		return
	}
	w.out = append(w.out, "$-1\r\n"...)
}

// count appends a number of items.
func (w *writer) count(n uint64) { w.integer(int64(min(n, math.MaxInt64))) }
