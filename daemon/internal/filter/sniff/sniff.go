// Package sniff tells by the first bytes of a file whether it holds lines of text, and if not,
// what it is and which program makes text of it. The package itself unpacks and converts
// nothing.
package sniff

import (
	"bytes"
	"fmt"
)

// Bytes is how many bytes are searched for a zero byte.
const Bytes = 4096

// Foreign describes a file that holds no lines of text.
type Foreign struct {
	What    string // such as "UTF-16"
	Program string // a shell command that makes text of FILE; "": no program does so by itself
	Advice  string // where Program is ""
}

var (
	// Gzip and Zstd are forms that some readers unpack.
	Gzip = []byte{0x1f, 0x8b}
	Zstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// marks are the beginnings of files of known formats.
var marks = []struct {
	magic string
	Foreign
}{
	{"BZh91AY&SY", Foreign{What: "bzip2", Program: "bzcat FILE"}},
	{"\xfd7zXZ\x00", Foreign{What: "xz", Program: "xzcat FILE"}},
	{"\x04\x22\x4d\x18", Foreign{What: "lz4", Program: "lz4 -dc FILE"}},
	{"PK\x03\x04", Foreign{What: "zip (or an office document)", Program: "unzip -p FILE"}},
	{"7z\xbc\xaf\x27\x1c", Foreign{What: "7-Zip", Program: "7z x -so FILE"}},
	{"\xff\xfe\x00\x00", Foreign{What: "UTF-32", Program: "iconv -f UTF-32 -t UTF-8 FILE"}},
	{"\x00\x00\xfe\xff", Foreign{What: "UTF-32", Program: "iconv -f UTF-32 -t UTF-8 FILE"}},
	{"\xff\xfe", Foreign{What: "UTF-16", Program: "iconv -f UTF-16 -t UTF-8 FILE"}},
	{"\xfe\xff", Foreign{What: "UTF-16", Program: "iconv -f UTF-16 -t UTF-8 FILE"}},
	{"%PDF-", Foreign{What: "PDF", Advice: "take the items out of it first, one a line"}},
	{"SQLite format 3\x00", Foreign{What: "an SQLite database", Advice: "`sqlite3 FILE 'select ...'` prints a column, one item a line"}},
	{"PAR1\x15", Foreign{What: "Parquet", Advice: "take the column out of it first, one item a line"}},
}

// Unfinished reports whether b is the beginning of a mark that needs more bytes to be
// recognized.
func Unfinished(b []byte) bool {
	for _, packed := range [][]byte{Gzip, Zstd} {
		if len(b) < len(packed) && bytes.HasPrefix(packed, b) {
			return true
		}
	}
	for _, m := range marks {
		if len(b) < len(m.magic) && string(b) == m.magic[:len(b)] {
			return true
		}
	}
	return false
}

// Look returns what a file is that begins with first and holds no lines of text; nil: it may
// hold some. The caller must check for Gzip and Zstd before.
func Look(first []byte) *Foreign {
	first = first[:min(len(first), Bytes)]
	for _, m := range marks {
		if bytes.HasPrefix(first, []byte(m.magic)) {
			return &m.Foreign
		}
	}
	at := bytes.IndexByte(first, 0)
	if at < 0 {
		return nil
	}
	if order := wide(first); order != "" {
		return &Foreign{What: "UTF-16 without a byte order mark", Program: "iconv -f " + order + " -t UTF-8 FILE"}
	}
	return &Foreign{
		What:   fmt.Sprintf("a binary file (byte %d is zero)", at),
		Advice: "`file FILE` may know what it is; of items that end with a zero byte, `tr '\\0' '\\n'` makes lines",
	}
}

// wide recognizes text of two bytes per character, mostly ASCII, by the positions of its zero
// bytes.
func wide(b []byte) string {
	var zeroes [2]int
	for i, c := range b {
		if c == 0 {
			zeroes[i%2]++
		}
	}
	switch half := len(b) / 2; {
	case half > 0 && zeroes[0] == 0 && zeroes[1]*10 >= half*9:
		return "UTF-16LE"
	case half > 0 && zeroes[1] == 0 && zeroes[0]*10 >= half*9:
		return "UTF-16BE"
	}
	return ""
}
