package registry

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Entry is a filter in the registry. Two equal entries are the same filter.
type Entry struct {
	Spec   engine.Spec
	Seed   uint64
	Gen    uint64
	Born   int64        // nanoseconds since 1970 UTC
	Header bloom.Header // for the kind bloom
	// Tag is part of the keys of its stripes, so that no other filter has the same keys, not
	// even one restored from the same version of the archive; "" in filters of earlier
	// versions.
	Tag string
}

// NewEntry returns the entry of a new filter.
func NewEntry(spec engine.Spec, b engine.Identity) (Entry, error) {
	e := Entry{Spec: spec, Seed: b.Seed, Gen: b.Generation, Born: b.Created.UnixNano()}
	if wrong := spec.NotIn("redis"); wrong != nil {
		return e, wrong
	}
	switch {
	case e.HasBitMap():
		h, err := engine.BitMapHeader(spec, b, false) // each bit is asked for by itself
		return NewBitMapEntry(spec, h), err
	case hasItems(spec):
		return e, nil
	}
	return e, &engine.SpecError{Field: "kind", Msg: fmt.Sprintf("%q: filters of this kind are kept with store: embedded only, and not in redis", spec.Kind)}
}

func bitMapEntry(spec engine.Spec, h bloom.Header) Entry {
	h.Layers = min(h.Layers, 1) // if the filter grows, Redis itself tells how many there are
	return Entry{Spec: spec, Seed: h.Seed, Gen: h.Generation, Born: h.Created.UnixNano(), Header: h}
}

// HasBitMap tells whether the filter is a bit-map.
func (e Entry) HasBitMap() bool { return e.Spec.HasBitMap() }

// hasItems tells whether single items of a filter are kept: as keys, or as members of sets.
func hasItems(spec engine.Spec) bool {
	return configs.Expires(spec.Kind) || configs.HasHashes(spec.Kind) || spec.Fingerprints()
}

// Expires tells whether items of filters of this kind expire.
func (e Entry) Expires() bool { return configs.Expires(e.Spec.Kind) }

func newTag() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, according to its documentation
	return hex.EncodeToString(b[:])
}

// NewBitMapEntry returns the entry of a new filter whose bit-map has the header.
func NewBitMapEntry(spec engine.Spec, h bloom.Header) Entry {
	e := bitMapEntry(spec, h)
	e.Tag = newTag()
	return e
}

// entryJSON is what the registry has of an entry besides its spec. The name of the field is the
// name of the spec.
type entryJSON struct {
	// Header of the bit-map, in base64. Filters whose keys have a tag have it as Map instead,
	// so that earlier versions, which would look for other keys, refuse them.
	Header string `json:"header"`
	Map    string `json:"map"`
	Tag    string `json:"tag"`

	Seed       string `json:"seed"` // hexadecimal
	Generation uint64 `json:"generation"`
	Created    int64  `json:"created"`
}

// Encode returns the entry as the registry has it, in the field of its name.
func (e Entry) Encode() (string, error) {
	var own []configs.Member
	if e.HasBitMap() {
		raw, err := e.Header.MarshalBinary()
		if err != nil {
			return "", err
		}
		text := base64.StdEncoding.EncodeToString(raw)
		if e.Tag == "" {
			own = []configs.Member{{Key: "header", Value: text}}
		} else {
			own = []configs.Member{{Key: "map", Value: text}, {Key: "tag", Value: e.Tag}}
		}
	} else {
		own = []configs.Member{{Key: "seed", Value: strconv.FormatUint(e.Seed, 16)}, {Key: "generation", Value: e.Gen}, {Key: "created", Value: e.Born}}
	}
	spec := e.Spec
	spec.Name = ""
	text, err := spec.AppendJSON(nil, own...)
	return string(text), err
}

// Decode reads what Encode wrote. [shared.IsDamaged] recognizes its errors.
func Decode(name, text string) (e Entry, err error) {
	defer func() {
		if err != nil {
			err = shared.Damaged(fmt.Errorf("key %s, field %s: %w\nhint: it was written by another program or a newer urifilter: update this one, or drop the filter, which moves the entry to %s", Key, name, err, QuarantineKey))
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
	case spec.HasBitMap():
		raw, err := base64.StdEncoding.DecodeString(j.Header + j.Map)
		if err != nil {
			return e, err
		}
		var h bloom.Header
		if err := h.UnmarshalBinary(raw); err != nil {
			return e, err
		}
		e = bitMapEntry(spec, h)
		if e.Tag = j.Tag; (e.Tag == "") != (j.Map == "") {
			return e, errors.New("has a tag without a map, or a map without a tag")
		}
		return e, nil
	case hasItems(spec):
		seed, err := strconv.ParseUint(j.Seed, 16, 64)
		return Entry{Spec: spec, Seed: seed, Gen: j.Generation, Born: j.Created}, err
	}
	return e, fmt.Errorf("kind %q, or its layout, is not known", spec.Kind)
}
