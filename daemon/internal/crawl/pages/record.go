package pages

import (
	"bytes"
	"encoding/json"
	"time"
)

// Record is a line of index.ndjson.
type Record struct {
	URI         string    `json:"uri"`                    // the requested URI
	Final       string    `json:"final,omitempty"`        // the URI that answered, after redirects, if it differs
	File        string    `json:"file"`                   // under pages/, with /
	Status      int       `json:"status"`                 // of HTTP
	ContentType string    `json:"content_type"`           // as sent
	Declared    string    `json:"declared_encoding"`      // "": none was, or this is not text
	Detected    string    `json:"detected_encoding"`      // "": there was no detection, or no result
	Encoding    string    `json:"encoding"`               // the one used; "": stored unchanged
	Replaced    int       `json:"replaced,omitempty"`     // characters that stand for bytes which are none in Encoding
	Bytes       int       `json:"bytes"`                  // of the file
	SHA256      string    `json:"sha256"`                 // of the file, in hex
	DuplicateOf string    `json:"duplicate_of,omitempty"` // an earlier page with the same content
	Depth       int       `json:"depth"`                  // links from a seed
	Referrer    string    `json:"referrer"`               // the page on which it was first found; "": a seed
	NoIndex     bool      `json:"noindex,omitempty"`      // the page asks not to be shown in search results (meta robots, X-Robots-Tag)
	Time        time.Time `json:"time"`                   // when it was stored, in UTC to the millisecond
}

// Line returns the record as a line, with its line end.
func (r Record) Line() ([]byte, error) {
	r.Time = r.Time.UTC().Truncate(time.Millisecond)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
