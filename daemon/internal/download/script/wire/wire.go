// Package wire has the messages between the engine and the process that runs job code. They go
// over two pipes: the length of a message as four bytes, the highest first, then the message as
// JSON. The engine trusts nothing that comes from the process.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// MaxMessage is the longest message, in bytes.
const MaxMessage = 32 << 20

// Down is a message to the process. Exactly one member is set.
type Down struct {
	Start *Start `json:",omitempty"`
	Page  *Page  `json:",omitempty"` // the answer to a Fetch
	Stop  string `json:",omitempty"` // why the code is to be stopped
	Found *Found `json:",omitempty"` // the answer to an Ask
	Ask   *Ask   `json:",omitempty"` // to the process that reads pages for another
}

// Start is the first message.
type Start struct {
	File, Text string // of the code
	Function   string // that is called, with the fields below
	URI, Job   string // of the task
	Attempt    int    // from 1
	Due        string // when a run of generate was due, in RFC 3339
	Page       *Page  // the stored page, for a run of parse
	Check      bool   // only compile the code, do not run it
}

// Ask is a question of a process whose language cannot read pages itself; the engine passes it to
// one that can, and passes the answer back. Element numbers refer to the last document.
type Ask struct {
	Decode  []byte // a body to decode to text
	Type    string // its Content-Type
	CSS     string // selects the wanted elements, if Source or Element is set
	Source  *string
	Element int    // from 1
	Member  string // the wanted member of Element: text or html
}

// Found is the answer to an Ask.
type Found struct {
	Refused  string
	Text     string
	Elements []Element
}

// Element is an element of a document.
type Element struct {
	ID    int
	Name  string
	Attrs map[string]string
}

// Page is an answer to a Fetch, or a stored page.
type Page struct {
	Refused     string // why the request was not sent; else the fields below are set
	ID          int
	URL         string // that answered
	Status      int
	Headers     map[string]string // names in lower case
	ContentType string
	Body        []byte
	Records     json.RawMessage `json:",omitempty"` // a list: those stored with the page; "" for none
}

// Up is a message of the process. Exactly one member is set.
type Up struct {
	Fetch  *Fetch          `json:",omitempty"`
	Emit   json.RawMessage `json:",omitempty"` // a record
	Follow *Follow         `json:",omitempty"`
	Log    *string         `json:",omitempty"`
	End    *End            `json:",omitempty"`
	Ask    *Ask            `json:",omitempty"`
	Found  *Found          `json:",omitempty"` // from the process that reads pages
}

// Fetch asks for a page.
type Fetch struct {
	URL     string
	Method  string
	Headers map[string]string
	Body    []byte
	Any     bool // also with a status of 400 and above
}

// Follow lists links, as they stand in a page.
type Follow struct {
	Base  string // the URI of the page; "" if there is none, and links are absolute
	Links []string
}

// End is the last message.
type End struct {
	Fault     string // what went wrong, "" if nothing did
	Permanent bool   // another attempt would end the same
	Memory    bool   // it had not enough
	Page      int    // the page whose body is to be stored; 0: none
}

// Write writes a message. It is for one goroutine at a time.
func Write(w io.Writer, message any) error {
	text := bytes.NewBuffer(make([]byte, 4, 512)) // the length comes first
	enc := json.NewEncoder(text)
	enc.SetEscapeHTML(false) // records and texts that are within their bounds would not be, with six bytes for each <
	if err := enc.Encode(message); err != nil {
		return err
	}
	n := text.Len() - 4
	if n > MaxMessage {
		return fmt.Errorf("message of %d bytes: want %d at most", n, MaxMessage)
	}
	binary.BigEndian.PutUint32(text.Bytes(), uint32(n))
	_, err := w.Write(text.Bytes())
	return err
}

// Read reads a message. The error is io.EOF at the end of the stream between two messages.
func Read(r io.Reader, message any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxMessage {
		return fmt.Errorf("message of %d bytes: want %d at most", n, MaxMessage)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return fmt.Errorf("message of %d bytes is cut: %w", n, err)
	}
	return json.Unmarshal(text, message)
}
