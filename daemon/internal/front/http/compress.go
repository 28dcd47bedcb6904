package http

import (
	"bytes"
	"net/http"
)

// Answers of Limits.CompressBytes and more are compressed for clients that accept it.

// coding returns the coding for an answer of this many bytes; nil: none.
func (c *call) coding(size int64) *coding {
	if c.s.limits.CompressBytes < 0 || size < c.s.limits.CompressBytes {
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
	h.Set("Content-Encoding", k.name)
	return c.packed
}
