package api

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

// Answers of Limits.CompressBytes and more are compressed for clients that say that they accept
// it. Both codings are set to be quick: URIs shrink to a fifth at any level, and a crawler
// waits for the answer.

// coding is one way to compress an answer.
type coding struct {
	name string // in Content-Encoding
	pool sync.Pool
}

// packer compresses what is written to it. Flush makes what was written readable for the other
// side; Close ends the compressed data.
type packer interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// codings are those that we have, the better ones first.
func codings() []*coding {
	gz := &coding{name: "gzip"}
	gz.pool.New = func() any {
		w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		return mustPack(w, err)
	}
	zs := &coding{name: "zstd"}
	zs.pool.New = func() any {
		// A window of 512 KiB finds what URIs repeat, and takes 1 MiB in all. Without
		// concurrency nothing runs on after the call.
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

func (k *coding) release(p packer) {
	p.Reset(nil) // it must not keep a connection alive
	k.pool.Put(p)
}

// accepted chooses a coding by the Accept-Encoding of a request, nil for none: that of the
// highest quality value, of equal ones the first of known (RFC 9110, 12.5.3).
func accepted(header []string, known []*coding) *coding {
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
	most := of("identity", 0) // unless it is named, anything that is accepted is better
	for _, k := range known {
		if q := of(k.name, of("*", 0)); q > 0 && (q > most || best == nil && q == most) {
			best, most = k, q
		}
	}
	return best
}

// quality reads the parameter q in thousandths, 1000 where there is none.
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

// coding is how an answer of so many bytes is compressed; nil: not at all.
func (c *call) coding(size int64) *coding {
	if c.s.limits.CompressBytes < 0 || size < c.s.limits.CompressBytes {
		return nil
	}
	// What a cache may answer with depends on it, also where it chose nothing.
	c.w.Header().Add("Vary", "Accept-Encoding")
	return accepted(c.r.Header["Accept-Encoding"], c.s.codings)
}

// pack compresses a whole answer, if its client accepts that and it is worth it.
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
	h.Set("Content-Encoding", k.name)
	return c.packed
}
