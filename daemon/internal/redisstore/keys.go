package redisstore

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// What is in Redis, all of it under urifilter:
//
//	urifilter:filters                hash: name of a filter -> entry (JSON)
//	                                 field ":format": the version of all this, 1
//	urifilter:{<id>-<name>:<i>}      string: stripe i of a filter's bit-map: 8 bytes of
//	                                 head, then the stripe's bytes as in docs/format.md;
//	                                 what is missing at the end is zero
//	urifilter:{<id>-<name>:<i>}:<d>  string: a stripe on its way into the one above
//	urifilter:members                hash: daemon -> its last sign of life
//	urifilter:incarnation            string: changes whenever data was found lost
//	urifilter:stopped:<incident>     set: the daemons that send no batches until these
//	                                 servers, in this incarnation, are healed
//	urifilter:healed:<incident>      set: the daemons that have put back what they know
//
// The braces are hash tags: in a cluster a filter's stripes spread over the nodes, and
// a stripe and its temporary key share one.
const (
	registryKey    = "urifilter:filters"
	membersKey     = "urifilter:members"
	incarnationKey = "urifilter:incarnation"
	stoppedPrefix  = "urifilter:stopped:"
	healedPrefix   = "urifilter:healed:"

	formatField = ":format"
	format      = "1"

	headBytes = 8
	headMark  = "URIS"
)

func stripeKey(spec engine.Spec, i int) string {
	return fmt.Sprintf("urifilter:{%d-%s:%d}", spec.ID, spec.Name, i)
}

// head is what a stripe's key begins with: that it is ours, and a checksum of the
// filter's header, so that it belongs to this map and generation and no other.
func head(h bloom.Header) []byte {
	raw, _ := h.MarshalBinary() // the error is always nil
	return binary.BigEndian.AppendUint32([]byte(headMark), bloom.Checksum(raw))
}

// headNumber is the head as BITFIELD GET i64 reads it.
func headNumber(h bloom.Header) int64 { return int64(binary.BigEndian.Uint64(head(h))) }

func foreign(key string) error {
	return fmt.Errorf("key %s: holds data of another program\nhint: give urifilter a database of its own (redis.db), or rename that key", key)
}

// entry is a filter in the registry.
type entry struct {
	ID        int     `json:"id"`
	Kind      string  `json:"kind"`
	Capacity  uint64  `json:"capacity"`
	ErrorRate float64 `json:"error_rate"`
	OnFull    string  `json:"on_full"`
	Header    string  `json:"header"` // of the bit-map, base64
}

func encodeEntry(spec engine.Spec, h bloom.Header) (string, error) {
	raw, err := h.MarshalBinary()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(entry{spec.ID, spec.Kind, spec.Capacity, spec.ErrorRate, spec.OnFull, base64.StdEncoding.EncodeToString(raw)})
	return string(text), err
}

func decodeEntry(name, text string) (spec engine.Spec, h bloom.Header, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("key %s, field %s: %w\nhint: it was written by another program or a newer urifilter; give this one a database of its own (redis.db), or update it", registryKey, name, err)
		}
	}()
	var e entry
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return spec, h, err
	}
	raw, err := base64.StdEncoding.DecodeString(e.Header)
	if err != nil {
		return spec, h, err
	}
	if err := h.UnmarshalBinary(raw); err != nil {
		return spec, h, err
	}
	return engine.Spec{ID: e.ID, Name: name, Kind: e.Kind, Capacity: e.Capacity, ErrorRate: e.ErrorRate, OnFull: e.OnFull}, h, nil
}
