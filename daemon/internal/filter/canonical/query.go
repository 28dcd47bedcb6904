package canonical

import (
	"bytes"
	"slices"
	"strings"
)

// Names is a set of names of parameters, in any letter case. Nil is the empty set.
type Names struct {
	whole    map[string]bool
	prefixes []string
	longest  int // of whole
}

// NewNames makes a set; a star at the end of a name stands for any rest.
func NewNames(names []string) *Names {
	n := &Names{whole: make(map[string]bool, len(names))}
	for _, name := range names {
		name = strings.ToLower(name)
		if prefix, any := strings.CutSuffix(name, "*"); any {
			n.prefixes = append(n.prefixes, prefix)
			continue
		}
		n.whole[name] = true
		n.longest = max(n.longest, len(name))
	}
	return n
}

func (n *Names) has(name []byte) bool {
	if n == nil {
		return false
	}
	for _, prefix := range n.prefixes {
		if len(name) >= len(prefix) && strings.EqualFold(string(name[:len(prefix)]), prefix) {
			return true
		}
	}
	if len(name) > n.longest {
		return false
	}
	var buf [64]byte
	return n.whole[string(appendLower(buf[:0], name))]
}

// param is a parameter of a query; name, value and end are positions in Canonicalizer.value.
type param struct{ name, value, end int }

// appendSorted appends a query as a form would send it, sorted by names, then values, and without
// the parameters that are dropped. It appends nothing if no parameter is left.
func (c *Canonicalizer) appendSorted(dst, query []byte, drop *Names) []byte {
	if len(query) == 0 {
		return dst
	}
	c.query, c.value = c.query[:0], c.value[:0]
	for len(query) > 0 {
		end := bytes.IndexByte(query, '&')
		piece := query
		if end < 0 {
			query = nil
		} else {
			piece, query = query[:end], query[end+1:]
		}
		if len(piece) == 0 {
			continue
		}
		name, value, _ := bytes.Cut(piece, []byte("="))
		p := param{name: len(c.value)}
		c.value = appendUnescaped(c.value, name)
		p.value = len(c.value)
		if drop.has(c.value[p.name:p.value]) {
			c.value = c.value[:p.name]
			continue
		}
		c.value = appendUnescaped(c.value, value)
		p.end = len(c.value)
		c.query = append(c.query, p)
	}
	slices.SortFunc(c.query, func(a, b param) int {
		if by := bytes.Compare(c.value[a.name:a.value], c.value[b.name:b.value]); by != 0 {
			return by
		}
		return bytes.Compare(c.value[a.value:a.end], c.value[b.value:b.end])
	})
	separator := byte('?')
	for _, p := range c.query {
		dst = appendForm(append(dst, separator), c.value[p.name:p.value])
		dst = appendForm(append(dst, '='), c.value[p.value:p.end])
		separator = '&'
	}
	return dst
}
