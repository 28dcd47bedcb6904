package near

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// maxBytes bounds a line, and a file that is a document: with default settings no daemon takes
// a longer one.
const maxBytes = 64 << 20

// files reads documents, each from its own file.
type files struct {
	names []string
	stdin io.Reader
}

func newFiles(names []string, stdin io.Reader) *files { return &files{names, stdin} }

func (f *files) next(ctx context.Context) (d client.Document, where string, more bool, err error) {
	if ctx.Err() != nil {
		return d, "", false, context.Cause(ctx)
	}
	if len(f.names) == 0 {
		return d, "", false, io.EOF
	}
	name := f.names[0]
	f.names = f.names[1:]
	source := f.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return d, "", false, err
		}
		defer file.Close()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxBytes+1))
	switch {
	case err != nil:
		return d, "", false, err
	case len(text) > maxBytes:
		return d, "", false, fmt.Errorf("%s: longer than %d MiB", name, maxBytes>>20)
	}
	return client.Document{ID: name, Text: string(text)}, name, len(f.names) > 0, nil
}

// lines reads documents, one per line. A goroutine reads ahead, so that waiting for a line can
// be interrupted.
type lines struct {
	name string
	read chan line
	done chan struct{}

	at    int64 // line
	ended bool  // there are no more
}

type line struct {
	text []byte
	more bool // a part of the next line has come
	err  error
}

// newLines starts reading. close must follow.
func newLines(source io.Reader, name string) *lines {
	l := &lines{name: name, read: make(chan line, 4), done: make(chan struct{})}
	go l.readAll(bufio.NewReaderSize(source, 256<<10))
	return l
}

// close ends the reading; a Read under way ends when it does.
func (l *lines) close() { close(l.done) }

func (l *lines) readAll(from *bufio.Reader) {
	for {
		var got line
		for got.err == nil && !bytes.HasSuffix(got.text, []byte{'\n'}) {
			var part []byte
			part, got.err = from.ReadSlice('\n')
			if errors.Is(got.err, bufio.ErrBufferFull) {
				got.err = nil
			}
			if got.text = append(got.text, part...); len(got.text) > maxBytes {
				got.err = fmt.Errorf("longer than %d MiB", maxBytes>>20)
			}
		}
		got.more = from.Buffered() > 0
		select {
		case l.read <- got:
		case <-l.done:
			return
		}
		if got.err != nil {
			return
		}
	}
}

func (l *lines) next(ctx context.Context) (d client.Document, where string, more bool, err error) {
	for !l.ended {
		var got line
		select {
		case got = <-l.read:
		case <-ctx.Done():
			return d, "", false, context.Cause(ctx)
		}
		l.at++
		where = fmt.Sprintf("line %s", human.Count(l.at))
		if l.name != "-" {
			where = l.name + ", " + where
		}
		if l.ended = got.err != nil; l.ended && !errors.Is(got.err, io.EOF) {
			return d, "", false, fmt.Errorf("%s: %w", where, got.err)
		}
		text := bytes.TrimSpace(got.text)
		if l.at == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) > 0 {
			if d, err = parse(text); err != nil {
				return d, "", false, fmt.Errorf("%s: %w", where, err)
			}
			return d, where, got.more, nil
		}
	}
	return d, "", false, io.EOF
}

// parse reads a document, strictly.
func parse(text []byte) (d client.Document, err error) {
	const want = `want {"id": "...", "text": "..."}`
	var doc struct {
		ID   *string `json:"id"`
		Text *string `json:"text"`
	}
	if !utf8.Valid(text) { // encoding/json would replace it
		return d, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return d, fmt.Errorf("%w: %s", err, want)
	}
	if half := halfSurrogate(text); half != "" { // encoding/json has replaced it
		return d, fmt.Errorf("%s is half a surrogate pair", half)
	}
	switch {
	case dec.InputOffset() < int64(len(text)):
		return d, fmt.Errorf("something follows the document: %s", want)
	case doc.ID == nil || doc.Text == nil:
		return d, errors.New(want)
	}
	return client.Document{ID: *doc.ID, Text: *doc.Text}, nil
}

// halfSurrogate returns an unpaired surrogate escape in well-formed JSON, "" if it has none.
func halfSurrogate(text []byte) string {
	unit := func(i int) rune { // -1: no such escape at i
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if r := unit(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unit(i+6)) == utf8.RuneError {
				return string(text[i : i+6])
			}
			i += 6
		}
		i++ // the character after a backslash cannot begin an escape
	}
	return ""
}
