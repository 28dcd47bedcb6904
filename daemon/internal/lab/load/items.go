package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sort"
	"sync"
)

// source fills the batches of one connection.
type source interface {
	// fill adds n items to a request, and returns how many of them must be duplicates; -1:
	// that is not known.
	fill(r *request, n int) (duplicates int, err error)
	// settle says what became of the batch: its items are remembered for certain, or not.
	settle(remembered bool)
}

const (
	uriText   = "https://www-0000.example.com/catalogue/items/0123456789abcdef.html"
	hostAt    = len("https://www-")
	itemAt    = len("https://www-0000.example.com/catalogue/items/")
	streamLen = 1 << 40 // items that a connection can make
)

// generated makes URIs that no other connection and no other run has made. A share of them,
// spread evenly and exact over the run, repeats URIs that this connection has sent before and
// that were answered, chosen at random.
type generated struct {
	run   uint64
	share float64
	carry float64 // of share, from the items before
	pick  *rand.Rand
	uri   [len(uriText)]byte

	next  uint64 // number of the next new item
	began uint64 // next at the beginning of the batch that is under way
	known spans
}

// newGenerated makes the source of a connection. The same seed makes the same items.
func newGenerated(seed uint64, connection int, share float64) *generated {
	g := &generated{run: scramble(seed), share: share, pick: rand.New(rand.NewPCG(seed, uint64(connection))), next: uint64(connection) * streamLen}
	copy(g.uri[:], uriText)
	return g
}

// scramble is a bijection of 64 bits that looks random (the finalizer of SplitMix64: Steele,
// Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// item returns the URI of a number.
func (g *generated) item(number uint64) []byte {
	const digits = "0123456789abcdef"
	id := scramble(number ^ g.run)
	for i := range 16 {
		g.uri[itemAt+15-i] = digits[id>>(4*i)&15]
	}
	for i := range 4 {
		g.uri[hostAt+i] = digits[id>>(16+4*i)&15]
	}
	return g.uri[:]
}

// fill implements source.
func (g *generated) fill(r *request, n int) (duplicates int, err error) {
	g.began = g.next
	for range n {
		const rounding = 1e-9
		if g.carry += g.share; g.carry > 1-rounding && g.known.total > 0 {
			g.carry--
			duplicates++
			r.add(g.item(g.known.at(g.pick.Uint64N(g.known.total))))
			continue
		}
		r.add(g.item(g.next))
		g.next++
	}
	return duplicates, nil
}

// prime fills a batch with new items only, so that later batches have something to repeat.
func (g *generated) prime(r *request, n int) {
	g.began = g.next
	for range n {
		r.add(g.item(g.next))
		g.next++
	}
}

// settle implements source.
func (g *generated) settle(remembered bool) {
	if remembered {
		g.known.add(g.began, g.next-g.began)
	}
}

// spans is a list of numbers, kept as ranges: a new one begins only at a gap.
type spans struct {
	first  []uint64 // the first number of each range
	before []uint64 // how many numbers are in the ranges before it
	total  uint64
}

func (s *spans) add(first, n uint64) {
	if n == 0 {
		return
	}
	if last := len(s.first) - 1; last < 0 || s.first[last]+s.total-s.before[last] != first {
		s.first, s.before = append(s.first, first), append(s.before, s.total)
	}
	s.total += n
}

// at returns the i-th number.
func (s *spans) at(i uint64) uint64 {
	r := sort.Search(len(s.before), func(r int) bool { return s.before[r] > i }) - 1
	return s.first[r] + i - s.before[r]
}

const longestLine = 1 << 20

// Input is a file of items, one a line, that all connections share: each line goes to one of
// them, in order, and the last line is followed by the first.
type Input struct {
	mu    sync.Mutex // guards the following
	file  io.ReadSeeker
	lines *bufio.Reader
	got   bool // an item was read since the file was begun
	// passes counts how often the file was begun.
	passes int
}

// NewInput reads items from a file.
func NewInput(file io.ReadSeeker) *Input {
	return &Input{file: file, lines: bufio.NewReaderSize(file, longestLine), passes: 1}
}

// Passes says how often the file was begun.
func (in *Input) Passes() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.passes
}

// fill implements source.
func (in *Input) fill(r *request, n int) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for n > 0 {
		line, err := in.lines.ReadSlice('\n')
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			r.add(line)
			in.got = true
			n--
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return 0, fmt.Errorf("a line of more than %d bytes", longestLine)
		case errors.Is(err, io.EOF) && !in.got:
			return 0, errors.New("there is no item in it")
		case errors.Is(err, io.EOF):
			if n == 0 {
				continue // the next batch begins the file again
			}
			if _, err := in.file.Seek(0, io.SeekStart); err != nil {
				return 0, fmt.Errorf("to be read again: %w", err)
			}
			in.lines.Reset(in.file)
			in.passes, in.got = in.passes+1, false
		case err != nil:
			return 0, err
		}
	}
	return -1, nil
}

// settle implements source.
func (in *Input) settle(bool) {}
