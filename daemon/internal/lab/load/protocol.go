package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/load/lean"
)

// Protocol is the form in which batches are sent: over HTTP/1.1, or as clients of Redis do.
type Protocol string

// The protocols.
const (
	JSON   Protocol = "json"   // a list in an object
	Bits   Protocol = "bits"   // the same, answered with a bit an item
	Text   Protocol = "text"   // an item a line
	NDJSON Protocol = "ndjson" // a JSON value a line
	RESP   Protocol = "resp"   // BF.MADD, to the port for clients of Redis
)

// Protocols returns the names of all protocols.
func Protocols() []string {
	return []string{string(JSON), string(Bits), string(Text), string(NDJSON), string(RESP)}
}

// ParseProtocol parses the name of a protocol.
func ParseProtocol(name string) (Protocol, error) {
	switch p := Protocol(name); p {
	case JSON, Bits, Text, NDJSON, RESP:
		return p, nil
	}
	return "", fmt.Errorf("%q: want %s", name, strings.Join(Protocols(), ", "))
}

// lists tells whether a batch is a list of JSON.
func (p Protocol) lists() bool { return p == JSON || p == Bits }

const path = "/api/v1/filter"

// request is a request that is rewritten for each batch, in the same memory.
type request struct {
	protocol Protocol
	head     []byte // up to the value of Content-Length; of RESP, what follows the count
	open     []byte // what begins the body
	room     int    // for the header
	buf      []byte // room, and the body
	items    int
}

// newRequest makes a request for a filter. prefix is the path of the server's URL.
func newRequest(p Protocol, host, prefix, token, filter string) *request {
	r := &request{protocol: p}
	if p == RESP {
		r.head = fmt.Appendf(nil, "\r\n$7\r\nBF.MADD\r\n$%d\r\n%s\r\n", len(filter), filter)
		r.room = len(r.head) + len("*") + 20
		r.buf = make([]byte, r.room)
		return r
	}
	query, kind := "", "application/json"
	switch p {
	case JSON, Bits:
		name, _ := json.Marshal(filter) // cannot fail for a string
		r.open = fmt.Appendf(nil, `{"filter_typeid":%s,"uri_list":[`, name)
	case Text:
		query, kind = "?filter_typeid="+url.QueryEscape(filter), "text/plain; charset=utf-8"
	case NDJSON:
		query, kind = "?filter_typeid="+url.QueryEscape(filter), "application/x-ndjson"
	}
	r.head = fmt.Appendf(r.head, "POST %s%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: urifilter-bench\r\nTE: trailers\r\n", prefix, path, query, host)
	if token != "" {
		r.head = fmt.Appendf(r.head, "Authorization: Bearer %s\r\n", token)
	}
	if p == Bits {
		r.head = fmt.Appendf(r.head, "Accept: %s\r\n", client.MediaBits)
	}
	r.head = fmt.Appendf(r.head, "Content-Type: %s\r\nContent-Length: ", kind)
	r.room = len(r.head) + 20 + len("\r\n\r\n")
	r.buf = make([]byte, r.room)
	r.reset()
	return r
}

func (r *request) reset() {
	r.buf, r.items = append(r.buf[:r.room], r.open...), 0
}

// add appends an item, as it is for Text and RESP, and as a JSON string otherwise.
func (r *request) add(item []byte) {
	r.items++
	switch r.protocol {
	case Text:
		r.buf = append(append(r.buf, item...), '\n')
		return
	case RESP:
		r.buf = append(strconv.AppendInt(append(r.buf, '$'), int64(len(item)), 10), '\r', '\n')
		r.buf = append(append(r.buf, item...), '\r', '\n')
		return
	}
	if r.protocol.lists() && r.items > 1 {
		r.buf = append(r.buf, ',')
	}
	r.buf = append(r.buf, '"')
	from := 0
	for i, c := range item {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		r.buf = append(r.buf, item[from:i]...)
		r.buf = fmt.Appendf(r.buf, `\u%04x`, c)
		from = i + 1
	}
	r.buf = append(append(r.buf, item[from:]...), '"')
	if r.protocol == NDJSON {
		r.buf = append(r.buf, '\n')
	}
}

// whole returns the request, header and body.
func (r *request) whole() []byte {
	if r.protocol.lists() {
		r.buf = append(r.buf, "]}"...)
	}
	var digits [20]byte
	if r.protocol == RESP {
		count := strconv.AppendInt(append(digits[:0], '*'), int64(r.items+2), 10)
		at := r.room - len(r.head)
		copy(r.buf[at:], r.head)
		at -= len(count)
		copy(r.buf[at:], count)
		return r.buf[at:]
	}
	length := strconv.AppendInt(digits[:0], int64(len(r.buf)-r.room), 10)
	at := r.room - len("\r\n\r\n")
	copy(r.buf[at:], "\r\n\r\n")
	at -= len(length)
	copy(r.buf[at:], length)
	at -= len(r.head)
	copy(r.buf[at:], r.head)
	return r.buf[at:]
}

// refusal is an answer that is not a success.
type refusal struct {
	code   string // error_code, or http_ and the status
	detail string
}

func (r *refusal) Error() string {
	if r.detail == "" {
		return r.code
	}
	return r.code + ": " + r.detail
}

var errOddAnswer = errors.New("an answer that is not a filter's")

// read returns how many items an answer is about, and how many of them were duplicates.
func (p Protocol) read(a *lean.Answer) (total, duplicates int64, err error) {
	problem := a.Body
	if a.Status == http.StatusOK {
		problem = a.Get("Urifilter-Error") // of a stream that ended early
	}
	if problem != nil {
		return 0, 0, refused(a.Status, problem)
	}
	text := func(name string) []byte { return a.Get("Urifilter-" + name) }
	if p == JSON {
		text = func(name string) []byte { return member(a.Body, strings.ToLower(name)) }
	}
	total, err = strconv.ParseInt(string(text("Total")), 10, 64)
	duplicates, err2 := strconv.ParseInt(string(text("Duplicates")), 10, 64)
	if err != nil || err2 != nil {
		return 0, 0, fmt.Errorf("%w: it ends in %.60q", errOddAnswer, a.Body[max(0, len(a.Body)-60):])
	}
	return total, duplicates, nil
}

func refused(status int, problem []byte) *refusal {
	var p struct {
		Code   string `json:"error_code"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(problem, &p) != nil || p.Code == "" {
		return &refusal{code: fmt.Sprintf("http_%d", status), detail: http.StatusText(status)}
	}
	return &refusal{code: p.Code, detail: p.Detail}
}

// member returns the number of a member after the list: its name in quotation marks cannot be
// in a string of the list, where quotation marks are escaped.
func member(body []byte, name string) []byte {
	at := bytes.LastIndex(body, []byte(`"`+name+`":`))
	if at < 0 {
		return nil
	}
	rest := bytes.TrimLeft(body[at+len(name)+3:], " ")
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	return rest[:end]
}
