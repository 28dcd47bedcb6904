package warc

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // web archives compare pages by it
	"encoding/base32"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Exchange is a GET and its answer.
type Exchange struct {
	URI           string // the one that answered, absolute
	Time          time.Time
	Remote        string // address of the server, with or without port; "": unknown, or that of a proxy
	RequestHeader http.Header
	Status        int
	Header        http.Header
	Body          []byte // without transfer and content coding
}

// Digest is the digest of a body in the form of records: sha1: and the SHA-1 in base32. It does not protect
// against people who make two bodies with one digest: where that matters, compare in another way.
func Digest(body []byte) string {
	sum := sha1.Sum(body) //nolint:gosec // see above
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}

// Encoded has the records of an exchange as they will be in a file: gzip members.
type Encoded []byte

// Encode makes the records of an exchange: the request, and the response. It is the
// slowest step, and may be called by many goroutines.
//
// The body is stored without its codings. So header fields that describe the codings get the prefix
// X-Archive-Orig-, as is usual in archives, and Content-Length is that of the body.
func Encode(x Exchange) (Encoded, error) {
	if x.URI == "" || strings.ContainsFunc(x.URI, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("warc: %q is no URI", x.URI)
	}
	request, response := newID(), newID()
	common := func(kind, id, other string) fields {
		f := fields{{"WARC-Type", kind}, {"WARC-Record-ID", id}, {"WARC-Date", date(x.Time)}, {"WARC-Target-URI", x.URI}, {"WARC-Concurrent-To", other}}
		if ip := address(x.Remote); ip != "" {
			f = append(f, [2]string{"WARC-IP-Address", ip})
		}
		return f
	}
	asked := append(common("request", request, response), [2]string{"Content-Type", "application/http;msgtype=request"})
	answered := append(common("response", response, request),
		[2]string{"WARC-Payload-Digest", Digest(x.Body)}, [2]string{"Content-Type", "application/http;msgtype=response"})
	var b bytes.Buffer
	if err := member(&b, asked, requestBlock(&x)); err != nil {
		return nil, err
	}
	err := member(&b, answered, answerBlock(&x))
	return b.Bytes(), err
}

type fields [][2]string

// encodeInfo makes the record at the beginning of each file.
func encodeInfo(name string, info [][2]string, now time.Time) ([]byte, error) {
	var block, b bytes.Buffer
	for _, line := range slices.Concat(info, [][2]string{{"format", "WARC File Format 1.1"}, {"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"}}) {
		writeField(&block, line[0], line[1])
	}
	f := fields{{"WARC-Type", "warcinfo"}, {"WARC-Record-ID", newID()}, {"WARC-Date", date(now)}, {"WARC-Filename", name}, {"Content-Type", "application/warc-fields"}}
	err := member(&b, f, block.Bytes())
	return b.Bytes(), err
}

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// member writes a record as one gzip member.
func member(b *bytes.Buffer, f fields, block []byte) error {
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(b)
	var head bytes.Buffer
	head.WriteString("WARC/1.1\r\n")
	for _, field := range f {
		writeField(&head, field[0], field[1])
	}
	writeField(&head, "WARC-Block-Digest", Digest(block))
	writeField(&head, "Content-Length", strconv.Itoa(len(block)))
	head.WriteString("\r\n")
	for _, part := range [][]byte{head.Bytes(), block, []byte("\r\n\r\n")} {
		if _, err := z.Write(part); err != nil {
			return err
		}
	}
	return z.Close()
}

func requestBlock(x *Exchange) []byte {
	_, rest, _ := strings.Cut(x.URI, "://")
	host, _, _ := strings.Cut(rest, "/")
	target := strings.TrimPrefix(rest, host)
	if target == "" {
		target = "/"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\n", target)
	if x.RequestHeader.Get("Host") == "" {
		writeField(&b, "Host", host[strings.LastIndexByte(host, '@')+1:])
	}
	writeHeader(&b, x.RequestHeader)
	b.WriteString("\r\n")
	return b.Bytes()
}

// coded are the fields that describe a body as it was sent.
var coded = []string{"Content-Encoding", "Transfer-Encoding", "Content-Length"}

func answerBlock(x *Exchange) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", x.Status, http.StatusText(x.Status))
	header := x.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for _, name := range coded {
		values, ok := header[name]
		delete(header, name)
		if ok && (name != "Content-Length" || !slices.Equal(values, []string{strconv.Itoa(len(x.Body))})) {
			header["X-Archive-Orig-"+name] = values
		}
	}
	header.Set("Content-Length", strconv.Itoa(len(x.Body)))
	writeHeader(&b, header)
	b.WriteString("\r\n")
	b.Write(x.Body)
	return b.Bytes()
}

func writeHeader(b *bytes.Buffer, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			writeField(b, name, value)
		}
	}
}

// oneLine replaces characters that would end a line, or a header, too early.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ")

func writeField(b *bytes.Buffer, name, value string) {
	b.WriteString(oneLine.Replace(name) + ": " + oneLine.Replace(value) + "\r\n")
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func address(remote string) string {
	if a, err := netip.ParseAddrPort(remote); err == nil {
		return a.Addr().WithZone("").String()
	}
	if a, err := netip.ParseAddr(remote); err == nil {
		return a.WithZone("").String()
	}
	return ""
}

// newID is a random UUID (RFC 9562, version 4).
func newID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
