package http

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is one way to compress an answer. All use a fast level: URIs shrink to a fifth at any level, and a
// crawler waits for the answer. It is safe for concurrent use.
type coding struct {
	name string // in Content-Encoding
	pool sync.Pool
}

// packer compresses what is written to it. After Flush the other side can read all data written
// so far. Close ends the compressed data.
type packer interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// allCodings lists the codings that we have, the better ones first.
func allCodings() []*coding {
	gz := &coding{name: "gzip"}
	gz.pool.New = func() any {
		w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		return mustPack(w, err)
	}
	zs := &coding{name: "zstd"}
	zs.pool.New = func() any {
		// A window of 512 KiB finds the repeats in URIs, and takes 1 MiB in total. Without
		// concurrency no goroutine outlives the call.
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
		return mustPack(w, err)
	}
	return []*coding{zs, gz}
}

func mustPack(p packer, err error) packer {
	if err != nil {
		panic(err) // the options are constants
	}
	return p
}

// open makes a packer that writes to w; release must follow.
func (k *coding) open(w io.Writer) packer {
	p := k.pool.Get().(packer)
	p.Reset(w)
	return p
}

// release takes back a packer from open, which must not be used afterwards.
func (k *coding) release(p packer) {
	p.Reset(nil) // it must not keep a connection alive
	k.pool.Put(p)
}

// acceptedCoding chooses a coding by the Accept-Encoding of a request, nil for none. It takes the
// highest quality value, or the first of known among equals (RFC 9110, 12.5.3).
func acceptedCoding(header []string, known []*coding) *coding {
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
	var best *coding
	most := of("identity", 0) // unless it is named, any accepted coding is better
	for _, k := range known {
		if q := of(k.name, of("*", 0)); q > 0 && (q > most || best == nil && q == most) {
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

// Answers of Limits.CompressBytes and more are compressed for clients that accept it.

// coding returns the coding for an answer of this many bytes; nil: none.
func (c *call) coding(size int64) *coding {
	if least := int64(c.s.limits.CompressBytes); least == 0 || size < least {
		return nil
	}
	// Caches must know that the answer depends on it, even if no coding was chosen.
	c.w.Header().Add("Vary", "Accept-Encoding")
	return acceptedCoding(c.r.Header["Accept-Encoding"], c.s.codings)
}

// pack compresses a complete answer, if its client accepts that and it is worth it.
func (c *call) pack(h http.Header, body []byte) []byte {
	k := c.coding(int64(len(body)))
	if k == nil || h.Get("Content-Encoding") != "" {
		return body
	}
	packed := bytes.NewBuffer(c.packed[:0])
	p := k.open(packed)
	defer k.release(p)
	if _, err := p.Write(body); err != nil {
		return body
	}
	if err := p.Close(); err != nil {
		return body
	}
	c.packed = packed.Bytes()
	if len(c.packed) >= len(body) {
		return body
	}
	if n := int64(cap(c.packed)); n > firstRead && !c.hold(n) {
		c.out = nil // it need not be sent any more
	}
	h.Set("Content-Encoding", k.name)
	return c.packed
}
