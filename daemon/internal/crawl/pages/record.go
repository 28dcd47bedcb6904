package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Record is a line of index.ndjson.
type Record struct {
	URI         string    `json:"uri"`                    // that was asked for
	Final       string    `json:"final,omitempty"`        // that answered, after redirects, if it is another
	File        string    `json:"file"`                   // under pages/, with /
	Status      int       `json:"status"`                 // of HTTP
	ContentType string    `json:"content_type"`           // as it came
	Declared    string    `json:"declared_encoding"`      // "": none was, or this is no text
	Detected    string    `json:"detected_encoding"`      // "": it was not looked for, or not found
	Encoding    string    `json:"encoding"`               // that was used; "": stored as it came
	Replaced    int       `json:"replaced,omitempty"`     // characters that stand for bytes which are none in Encoding
	Bytes       int       `json:"bytes"`                  // of the file
	SHA256      string    `json:"sha256"`                 // of the file, in hex
	DuplicateOf string    `json:"duplicate_of,omitempty"` // a page that was stored before with the same content
	Depth       int       `json:"depth"`                  // links from a seed
	Referrer    string    `json:"referrer"`               // the page that it was first found on; "": a seed
	Time        time.Time `json:"time"`                   // when it was stored, in UTC to the millisecond
}

// Sum is the SHA-256 of a file in hex.
func Sum(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Line is the record as a line, with its line end.
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
