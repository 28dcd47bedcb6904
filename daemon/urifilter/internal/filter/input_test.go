package filter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// batches reads all batches of r; their data is copied.
func batches(t *testing.T, r io.Reader) ([]batch, error) {
	t.Helper()
	in := newInput(r)
	defer in.close()
	var all []batch
	for {
		b, err := in.next(t.Context())
		if err != nil {
			return all, err
		}
		b.data = bytes.Clone(b.data)
		all = append(all, b)
	}
}

func TestInputKeepsEveryByteAndCountsLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for range 40_000 {
		text = append(text, bytes.Repeat([]byte{'x'}, random.IntN(200))...)
		text = append(text, '\n')
	}
	text = append(text, bytes.Repeat([]byte{'y'}, 3<<20)...) // a line longer than a batch
	text = append(text, "\nshort\nlast"...)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(text), "halves": iotest.HalfReader(bytes.NewReader(text)), "with its end": iotest.DataErrReader(bytes.NewReader(text)),
	} {
		all, err := batches(t, r)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v", name, err)
		}
		var got []byte
		line := int64(1)
		for i, b := range all {
			got = append(got, b.data...)
			count := int64(bytes.Count(b.data, []byte{'\n'}))
			if i == len(all)-1 {
				count++ // the last line has no end
			} else if b.data[len(b.data)-1] != '\n' {
				t.Errorf("%s: batch %d ends within a line", name, i)
			}
			if b.first != line || b.lines != count || count > batchLines || len(b.data) > batchBytes && count > 1 {
				t.Errorf("%s: batch %d: line %d, %d lines, %d bytes; want line %d, %d lines", name, i, b.first, b.lines, len(b.data), line, count)
			}
			line += count
		}
		if !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, want the %d of the source", name, len(got), len(text))
		}
	}
}

// A byte order mark is skipped only at the start of the input, not at the start of each batch.
func TestInputMarkWithinTheInput(t *testing.T) {
	all, err := batches(t, strings.NewReader(strings.Repeat("a\n", batchLines)+"\ufeffb\nc\n"))
	if !errors.Is(err, io.EOF) || len(all) != 2 {
		t.Fatalf("%d batches, %v", len(all), err)
	}
	b := all[1]
	if string(b.data) != "\n\ufeffb\nc\n" || b.line(1) != batchLines+1 || b.last() != batchLines+2 {
		t.Errorf("got %q, line 1 is %d, last %d", b.data, b.line(1), b.last())
	}
	if items := itemsOf(b, false); len(items) != 2 || string(items[0]) != "\ufeffb" {
		t.Errorf("items: %q", items)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestInputRefusesALineWithoutEnd(t *testing.T) {
	if _, err := batches(t, endless{}); err == nil || err.Error() != "line 1: longer than 64 MiB" {
		t.Errorf("got %v", err)
	}
}

func TestInputStopsWithItsContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	in := newInput(r)
	defer in.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if _, err := in.next(ctx); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}
