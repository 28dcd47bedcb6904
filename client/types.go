package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// MediaBits is the type of an answer with a bit for each item of a list, as openapi.yaml describes
// it. Older daemons ignore a wish for it, and answer JSON.
const MediaBits = "application/vnd.urifilter.bits"

// FilterResult answers POST /api/v1/filter.
type FilterResult[T any] struct {
	// URIList holds the items that were new, in their first-seen order, as they were sent.
	URIList []T `json:"uri_list"`
	// Total counts the items of the request.
	Total int `json:"total"`
	// Duplicates counts the items that were seen before or earlier in the same list.
	Duplicates int `json:"duplicates"`
	InvalidItems
	Fullness
}

// CheckResult answers POST /api/v1/check: one value an item, in order; null, which is false
// here, for an item that was skipped.
type CheckResult struct {
	New []bool `json:"new"`
	InvalidItems
	Fullness
}

// InvalidItems is what an answer says about the items that the daemon skipped as invalid, if
// the call asked for that. They are neither new nor duplicates.
type InvalidItems struct {
	// Invalid counts them.
	Invalid int64 `json:"invalid,omitempty"`
	// Items describes the first of them, in order: 100 of a list, and 20 of a stream, fewer
	// if their texts are long.
	Items []InvalidItem `json:"invalid_items,omitempty"`
}

// InvalidItem is an item that the daemon cannot accept.
type InvalidItem struct {
	Index     int    `json:"index"`      // in the list, or the line of a stream, from 0
	ErrorCode string `json:"error_code"` // like that of a Problem: empty_item, invalid_utf8 ...
	Detail    string `json:"detail"`     // for people
}

// Fullness is what an answer says about a filter that is past its capacity.
type Fullness struct {
	// OverCapacity is true if the filter holds more items than it was made for.
	OverCapacity bool `json:"over_capacity,omitempty"`
	// FPREstimate is then the share of new items that are called seen.
	FPREstimate float64 `json:"fpr_estimate,omitempty"`
}

// DigestsResult answers POST /api/v1/filters/{name}/digests.
type DigestsResult struct {
	Total   int `json:"total"`             // digests of the call
	New     int `json:"new"`               // of these, that were not seen before
	Expired int `json:"expired,omitempty"` // of these, whose time has passed
}

// FilterSpec is the body of PUT /api/v1/filters/{name}; zero fields have the daemon's defaults.
type FilterSpec struct {
	ID        int     `json:"id,omitempty"`         // fixed id; 0: the daemon chooses a free one
	Kind      string  `json:"kind,omitempty"`       // bloom | timing | exact | simhash | scaling
	Capacity  uint64  `json:"capacity,omitempty"`   // bloom: items up to which the error rate holds
	ErrorRate float64 `json:"error_rate,omitempty"` // bloom: false positives among new items, as a ratio
	OnFull    string  `json:"on_full,omitempty"`    // bloom: grow | warn | reject; scaling: grow | reject
	Layout    string  `json:"layout,omitempty"`     // bloom: fingerprints; "": a bit-map
	Expansion uint64  `json:"expansion,omitempty"`  // scaling: how many times as large each further layer is
	Expire    float64 `json:"expire,omitempty"`     // timing: seconds, for calls that give none; 0: each call must
	Store     string  `json:"store,omitempty"`      // exact: mysql; "": the store of the daemon
	Digest    uint64  `json:"digest,omitempty"`     // exact: bits of each item's hash that are kept, 64 or 128; 0: 128
	// Canonical is how far URIs are normalized before they are compared: none (the default), safe or crawl.
	Canonical string `json:"canonical,omitempty"`
	// CanonicalDrop names the parameters that crawl leaves out, separated by commas; - for none.
	CanonicalDrop string `json:"canonical_drop,omitempty"`
	// Distance (simhash) is how many of 64 bits may differ in the fingerprints of near documents.
	Distance uint64 `json:"distance,omitempty"`
	// FeatureHash (simhash) is xxh3 (the default), or md5 for the fingerprints of the Python module.
	FeatureHash string `json:"feature_hash,omitempty"`
	// Like names a filter: the new one has its kind and parameters, and hashes with its secret, so
	// that the two can be merged. "": none.
	Like string `json:"like,omitempty"`
	// More are parameters of kinds that this version of the client does not know, by their keys.
	More map[string]any `json:"-"`
}

// MarshalJSON writes More together with the other members.
func (f FilterSpec) MarshalJSON() ([]byte, error) {
	type plain FilterSpec // without this method
	return withMore(plain(f), f.More)
}

// FilterInfo describes a filter as GET /api/v1/filters/{name} shows it. Members that its kind
// does not have are zero, and not in the JSON.
type FilterInfo struct {
	ID            int        `json:"id"`
	Name          string     `json:"name"`
	Kind          string     `json:"kind"`
	Capacity      uint64     `json:"capacity"`
	ErrorRate     float64    `json:"error_rate"`
	OnFull        string     `json:"on_full"`        // grow, warn or reject
	ItemsEstimate uint64     `json:"items_estimate"` // from the bits that are set
	FillRatio     float64    `json:"fill_ratio"`     // bits set / bits, 0 to 1
	FPREstimate   float64    `json:"fpr_estimate"`   // false-positive ratio now, from the fill
	Bytes         uint64     `json:"bytes"`          // size of the bit-map
	Generation    uint64     `json:"generation"`
	LastWriteback *time.Time `json:"last_writeback"` // null: never

	Expire float64 `json:"expire,omitempty"` // timing: seconds; 0, null in JSON: each call must say
	Items  uint64  `json:"items,omitempty"`  // timing: those that have not expired; exact, simhash, layout fingerprints: all

	Expansion uint64 `json:"expansion,omitempty"` // scaling: how many times as large each further layer is

	Layout string        `json:"layout,omitempty"` // bloom: fingerprints, so that it has Items; "": a bit-map
	Layers []FilterLayer `json:"layers,omitempty"` // bloom with on_full grow: the oldest first

	Store         string `json:"store,omitempty"`          // exact: mysql; "": the store of the daemon
	Digest        uint64 `json:"digest,omitempty"`         // exact: bits of each item's hash that are kept; 0: 128
	Canonical     string `json:"canonical,omitempty"`      // safe or crawl; "": URIs are not normalized
	CanonicalDrop string `json:"canonical_drop,omitempty"` // crawl: names of parameters that are left out

	Distance    uint64 `json:"distance,omitempty"`     // simhash: the distance up to which documents are near
	FeatureHash string `json:"feature_hash,omitempty"` // simhash: xxh3 or md5

	// More are members that this version of the client does not know: parameters of other kinds.
	More map[string]any `json:"-"`

	estimated, counted bool // whether the JSON from which it was read has items_estimate, and items
}

// HasBitMap tells whether the filter has a bit-map, on which ItemsEstimate, FillRatio, FPREstimate
// and LastWriteback depend. Filters without one have Items, and perhaps a Capacity.
func (f FilterInfo) HasBitMap() bool { return f.estimated || f.Capacity != 0 && !f.counted }

// FilterLayer is one of the bit-maps of a filter that grows. New items go to the last one.
type FilterLayer struct {
	Capacity      uint64  `json:"capacity"`
	ErrorRate     float64 `json:"error_rate"` // its share of the filter's
	ItemsEstimate uint64  `json:"items_estimate"`
	FillRatio     float64 `json:"fill_ratio"`
	FPREstimate   float64 `json:"fpr_estimate"`
	Bytes         uint64  `json:"bytes"`
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *FilterInfo) UnmarshalJSON(text []byte) error {
	type plain FilterInfo // without this method
	var more map[string]any
	if err := json.Unmarshal(text, (*plain)(f)); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &more); err != nil {
		return err
	}
	_, f.counted = more["items"]
	_, f.estimated = more["items_estimate"]
	known := reflect.TypeFor[FilterInfo]()
	for i := range known.NumField() {
		key, _, _ := strings.Cut(known.Field(i).Tag.Get("json"), ",")
		delete(more, key)
	}
	f.More = nil
	if len(more) > 0 {
		f.More = more
	}
	return nil
}

// withMore returns value, an object, as JSON with further members.
func withMore(value any, more map[string]any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil || len(more) == 0 {
		return text, err
	}
	rest, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	if len(text) == len("{}") {
		return rest, nil
	}
	return append(append(text[:len(text)-1], ','), rest[1:]...), nil
}

// MarshalJSON writes the members that the filter's kind has.
func (f FilterInfo) MarshalJSON() ([]byte, error) {
	if !f.HasBitMap() {
		var expire *float64
		if f.Expire != 0 {
			expire = &f.Expire
		}
		return withMore(struct {
			ID         int      `json:"id"`
			Name       string   `json:"name"`
			Kind       string   `json:"kind"`
			Capacity   uint64   `json:"capacity,omitempty"`
			ErrorRate  float64  `json:"error_rate,omitempty"`
			OnFull     string   `json:"on_full,omitempty"`
			Layout     string   `json:"layout,omitempty"`
			Expansion  uint64   `json:"expansion,omitempty"`
			Expire     *float64 `json:"expire"`
			Items      uint64   `json:"items"`
			Bytes      uint64   `json:"bytes"`
			Generation uint64   `json:"generation"`
			Store      string   `json:"store,omitempty"`
			Digest     uint64   `json:"digest,omitempty"`
			Canonical  string   `json:"canonical,omitempty"`
			Drop       string   `json:"canonical_drop,omitempty"`
			Distance   uint64   `json:"distance,omitempty"`
			Feature    string   `json:"feature_hash,omitempty"`
		}{f.ID, f.Name, f.Kind, f.Capacity, f.ErrorRate, f.OnFull, f.Layout, f.Expansion, expire, f.Items, f.Bytes, f.Generation, f.Store, f.Digest, f.Canonical, f.CanonicalDrop, f.Distance, f.FeatureHash}, f.More)
	}
	type bitMap FilterInfo // without this method
	return withMore(bitMap(f), f.More)
}

// FilterList answers GET /api/v1/filters.
type FilterList struct {
	Filters []FilterInfo `json:"filters"`
	// Quarantined are those that the daemon does not serve, because their data is damaged.
	Quarantined []QuarantinedFilter `json:"quarantined,omitempty"`
}

// QuarantinedFilter is a filter that is not served.
type QuarantinedFilter struct {
	ID     int    `json:"id,omitempty"` // 0: not known
	Name   string `json:"name"`
	Reason string `json:"reason"` // what is damaged
}

// CopyResult answers the writeback and restore of a filter.
type CopyResult struct {
	Filter        string  `json:"filter"`
	Version       string  `json:"version"` // id of the archive's version
	Generation    uint64  `json:"generation"`
	Bytes         int64   `json:"bytes"`    // size of the bit-map
	Uploaded      int64   `json:"uploaded"` // bytes sent to the archive; 0 for a restore
	ItemsEstimate uint64  `json:"items_estimate"`
	TookSeconds   float64 `json:"took_seconds"`
}

// Problem is an RFC 9457 problem+json body, the shape of every error answer.
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	ErrorCode string `json:"error_code"` // stable lower_snake word
	// Index is the position in the list of the item at fault, from 0.
	Index *int `json:"index,omitempty"`
	// Offset is the byte in the body at which decoding stopped, from 0.
	Offset *int64 `json:"offset,omitempty"`
	// Known lists the values that would have been accepted.
	Known []string `json:"known,omitempty"`
}
