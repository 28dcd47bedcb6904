package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Document is a text that is compared with others.
type Document struct {
	// ID is chosen by the caller, such as the page's URI: 1 to 1024 bytes, unique in a call.
	ID string `json:"id"`
	// Text is the text without markup, with at least three letters or digits.
	Text string `json:"text"`
}

// NearResult answers POST /api/v1/near.
type NearResult struct {
	Documents []Compared `json:"documents"`
}

// Compared is the result for a document.
type Compared struct {
	ID          string `json:"id"`
	Fingerprint string `json:"fingerprint"` // 16 hexadecimal digits
	// New is true if no earlier document with another id is near.
	New bool `json:"new"`
	// Near lists the near documents with other ids: the nearest first, then by id.
	Near []NearDocument `json:"near"`
	// More is true if Near leaves some out.
	More bool `json:"more,omitempty"`
}

// NearDocument is a document near another: their fingerprints differ in Distance of 64 bits.
type NearDocument struct {
	ID       string `json:"id"`
	Distance int    `json:"distance"`
}

// NearOption changes one call of [Client.Near].
type NearOption func(*nearOptions)

type nearOptions struct {
	distance, limit *int // nil: not given
	look            bool
}

// NearDistance sets the distance up to which documents are near: 0 to that of the filter,
// which is also the default.
func NearDistance(distance int) NearOption { return func(o *nearOptions) { o.distance = &distance } }

// NearLimit sets how many near documents are listed for each document, 1 to 100. Default: 10.
func NearLimit(limit int) NearOption { return func(o *nearOptions) { o.limit = &limit } }

// NearLook makes the daemon only look: the documents are not remembered, and not compared with
// each other. A token then needs only the scope read.
func NearLook() NearOption { return func(o *nearOptions) { o.look = true } }

// Near reports which documents are nearly the same as others in the filter typ, of the kind
// simhash, and remembers them. A call whose answer was lost is repeated, and reports the same
// documents as new.
func (c *Client) Near(ctx context.Context, typ string, documents []Document, options ...NearOption) ([]Compared, error) {
	c.mustBeMade()
	var o nearOptions
	for _, option := range options {
		option(&o)
	}
	k := call{method: http.MethodPost, path: []string{"api", "v1", "near"}, filter: typ, idempotent: true, changes: !o.look}
	answer, err := c.exchange(ctx, k, encodeNear(typ, documents, o), nil)
	if err != nil {
		return nil, err
	}
	var result NearResult
	if err := c.decode("near", answer, &result); err != nil {
		return nil, err
	}
	if len(result.Documents) != len(documents) {
		return nil, c.odd("near", answer, fmt.Errorf("%d answers for %d documents", len(result.Documents), len(documents)))
	}
	return result.Documents, nil
}

// encodeNear writes texts as they are: bytes that are not UTF-8 are sent too, and the daemon
// refuses them with the index of their document.
func encodeNear(typ string, documents []Document, o nearOptions) []byte {
	size := 128 + len(typ)
	for _, d := range documents {
		size += len(d.ID) + len(d.Text) + 24
	}
	b := append(slices.Grow([]byte(nil), size), `{"filter_typeid":`...)
	b = appendType(b, typ)
	if o.distance != nil {
		b = strconv.AppendInt(append(b, `,"distance":`...), int64(*o.distance), 10)
	}
	if o.limit != nil {
		b = strconv.AppendInt(append(b, `,"limit":`...), int64(*o.limit), 10)
	}
	if o.look {
		b = append(b, `,"remember":false`...)
	}
	b = append(b, `,"documents":[`...)
	for i, d := range documents {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"id":`...), d.ID)
		b = append(appendString(append(b, `,"text":`...), d.Text), '}')
	}
	return append(b, "]}"...)
}
