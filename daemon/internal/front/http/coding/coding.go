// Package coding compresses answers in the codings that HTTP clients accept: zstd and gzip. Both
// use a fast level: URIs shrink to a fifth at any level, and a crawler waits for the answer.
//
// It does not decide which answers are worth compressing.
package coding

import (
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Coding is one way to compress an answer. It is safe for concurrent use.
type Coding struct {
	Name string // in Content-Encoding
	pool sync.Pool
}

// Packer compresses what is written to it. After Flush the other side can read all data written
// so far. Close ends the compressed data.
type Packer interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// All lists the codings that we have, the better ones first.
func All() []*Coding {
	gz := &Coding{Name: "gzip"}
	gz.pool.New = func() any {
		w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		return mustPack(w, err)
	}
	zs := &Coding{Name: "zstd"}
	zs.pool.New = func() any {
		// A window of 512 KiB finds the repeats in URIs, and takes 1 MiB in total. Without
		// concurrency no goroutine outlives the call.
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
		return mustPack(w, err)
	}
	return []*Coding{zs, gz}
}

func mustPack(p Packer, err error) Packer {
	if err != nil {
		panic(err) // the options are constants
	}
	return p
}

// Open makes a Packer that writes to w; Release must follow.
func (k *Coding) Open(w io.Writer) Packer {
	p := k.pool.Get().(Packer)
	p.Reset(w)
	return p
}

// Release takes back a Packer from Open, which must not be used afterwards.
func (k *Coding) Release(p Packer) {
	p.Reset(nil) // it must not keep a connection alive
	k.pool.Put(p)
}

// Accepted chooses a coding by the Accept-Encoding of a request, nil for none. It takes the
// highest quality value, or the first of known among equals (RFC 9110, 12.5.3).
func Accepted(header []string, known []*Coding) *Coding {
	if len(header) == 0 {
		return nil
	}
	weight := map[string]int{} // in thousandths
	for _, line := range header {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "x-gzip" {
				name = "gzip"
			}
			if q, ok := quality(params); ok && name != "" {
				weight[name] = q
			}
		}
	}
	of := func(name string, other int) int {
		if q, ok := weight[name]; ok {
			return q
		}
		return other
	}
	var best *Coding
	most := of("identity", 0) // unless it is named, any accepted coding is better
	for _, k := range known {
		if q := of(k.Name, of("*", 0)); q > 0 && (q > most || best == nil && q == most) {
			best, most = k, q
		}
	}
	return best
}

// quality reads the parameter q in thousandths, 1000 if there is none.
func quality(params string) (int, bool) {
	params = strings.TrimSpace(params)
	if params == "" {
		return 1000, true
	}
	name, value, _ := strings.Cut(params, "=")
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0, false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0, false
	}
	return int(q * 1000), true
}
