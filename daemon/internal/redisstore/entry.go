package redisstore

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// entry is a filter in the registry. Two are the same filter if they are equal.
type entry struct {
	spec   engine.Spec
	seed   uint64
	gen    uint64
	born   int64        // nanoseconds since 1970 UTC
	header bloom.Header // of the kind bloom
	// tag is in the keys of its stripes, so that they are those of no other filter, be it
	// restored from the same version of the archive; "" in filters of earlier versions.
	tag string
}

// newEntry is that of a new filter.
func newEntry(spec engine.Spec, b engine.Identity) (entry, error) {
	e := entry{spec: spec, seed: b.Seed, gen: b.Generation, born: b.Created.UnixNano()}
	switch {
	case configs.HasBitMap(spec.Kind):
		h, err := engine.BitMapHeader(spec, b)
		return newBitMapEntry(spec, h), err
	case configs.Expires(spec.Kind):
		return e, nil
	}
	return e, &engine.SpecError{Field: "kind", Msg: fmt.Sprintf("%q: filters of this kind cannot be kept in redis", spec.Kind)}
}

func bitMapEntry(spec engine.Spec, h bloom.Header) entry {
	return entry{spec: spec, seed: h.Seed, gen: h.Generation, born: h.Created.UnixNano(), header: h}
}

func (e entry) hasBitMap() bool { return configs.HasBitMap(e.spec.Kind) }

func newTag() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}

func newBitMapEntry(spec engine.Spec, h bloom.Header) entry {
	e := bitMapEntry(spec, h)
	e.tag = newTag()
	return e
}

// entryJSON is what stands in the registry of an entry beside its spec, whose name is the
// field's.
type entryJSON struct {
	// Header of the bit-map, base64. Filters whose keys have a tag have it as Map, so that
	// earlier versions, which would look for other keys, refuse them.
	Header string `json:"header"`
	Map    string `json:"map"`
	Tag    string `json:"tag"`

	Seed       string `json:"seed"` // hexadecimal
	Generation uint64 `json:"generation"`
	Created    int64  `json:"created"`
}

func (e entry) encode() (string, error) {
	var own []configs.Member
	if e.hasBitMap() {
		raw, err := e.header.MarshalBinary()
		if err != nil {
			return "", err
		}
		text := base64.StdEncoding.EncodeToString(raw)
		if e.tag == "" {
			own = []configs.Member{{Key: "header", Value: text}}
		} else {
			own = []configs.Member{{Key: "map", Value: text}, {Key: "tag", Value: e.tag}}
		}
	} else {
		own = []configs.Member{{Key: "seed", Value: strconv.FormatUint(e.seed, 16)}, {Key: "generation", Value: e.gen}, {Key: "created", Value: e.born}}
	}
	spec := e.spec
	spec.Name = ""
	text, err := spec.AppendJSON(nil, own...)
	return string(text), err
}

func decodeEntry(name, text string) (e entry, err error) {
	defer func() {
		if err != nil {
			err = damagedError{fmt.Errorf("key %s, field %s: %w\nhint: it was written by another program or a newer urifilter: update this one, or drop the filter, which moves the entry to %s", registryKey, name, err, quarantineKey)}
		}
	}()
	var j entryJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return e, err
	}
	spec, err := configs.ParseJSON([]byte(text), false)
	if err != nil {
		return e, err
	}
	spec.Name = name
	switch {
	case configs.HasBitMap(spec.Kind):
		raw, err := base64.StdEncoding.DecodeString(j.Header + j.Map)
		if err != nil {
			return e, err
		}
		var h bloom.Header
		if err := h.UnmarshalBinary(raw); err != nil {
			return e, err
		}
		e = bitMapEntry(spec, h)
		if e.tag = j.Tag; (e.tag == "") != (j.Map == "") {
			return e, errors.New("has a tag without a map, or a map without a tag")
		}
		return e, nil
	case configs.Expires(spec.Kind):
		seed, err := strconv.ParseUint(j.Seed, 16, 64)
		return entry{spec: spec, seed: seed, gen: j.Generation, born: j.Created}, err
	}
	return e, fmt.Errorf("kind %q is not known", spec.Kind)
}
