// Package charset makes UTF-8 of what servers send as text. It follows the order of browsers: a byte
// order mark, the header of the answer, what the page declares, and then, unlike them, what the bytes
// themselves are like. It decides by the body, not by the language of the reader, and it knows
// the encodings of the standard (encoding.spec.whatwg.org) and HZ. It fetches nothing and finds no links.
package charset

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// Source is what decided which encoding was used.
type Source string

const (
	BOM     Source = "bom"     // a byte order mark
	Header  Source = "header"  // the charset of Content-Type
	Meta    Source = "meta"    // a meta element, or the XML declaration
	Valid   Source = "valid"   // nothing was declared that fits, and the body is valid UTF-8, or ASCII
	Guess   Source = "guess"   // the detector
	Default Source = "default" // nothing fits: UTF-8 with replacement
)

// Result is a body as text, and how it was read.
type Result struct {
	Text     []byte // valid UTF-8, without byte order mark; it may share memory with the body
	Declared string // the encoding that was declared first, by header or page; its name in the standard, or the label where it has none; "": none was
	By       Source // who declared it: Header, Meta, BOM or ""
	Detected string // what the bytes are like, "" if nobody asked or could tell
	Used     string // the encoding of Text: utf-8, gb18030, ...
	From     Source // what decided on Used
	Replaced int    // how many U+FFFD stand for bytes that are no characters in Used
}

// Mismatch tells whether the text was read as another encoding than was declared, as the body is
// not in that one. GBK and GB2312 are read as GB18030, of which they are parts: that is none.
func (r *Result) Mismatch() bool {
	return r.Declared != "" && normal(r.Declared) != r.Used
}

// Query is the encoding that queries of links in this text are to be sent in: of a text read as
// GB18030 that was not declared as such it is gbk.
func (r *Result) Query() string {
	if r.Used == gb18030 && r.Declared != gb18030 {
		return "gbk"
	}
	return r.Used
}

const (
	utf8Name = "utf-8"
	gb18030  = "gb18030"
)

// Decode reads a body that came with a Content-Type, which may be "". Anything has a result.
func Decode(body []byte, contentType string) Result {
	if name, rest := cutBOM(body); name != "" {
		r := Result{Declared: name, By: BOM, From: BOM}
		r.use(name, rest)
		return r
	}
	var r Result
	valid := utf8.Valid(body)
	certain := looksWide(body)
	if certain == "" {
		certain = escapedJapanese(body)
	}
	for _, d := range declarations(body, contentType) {
		name := Name(d.label)
		if name == "" {
			name = strings.ToLower(d.label)
		}
		if r.Declared == "" {
			r.Declared, r.By = name, d.by
		}
		if name == certain || certain == "" && !betrayed(name, body, valid) {
			if r.try(name, body, name == certain) {
				r.From = d.by
				return r
			}
		}
	}
	switch {
	case certain != "":
		r.Detected, r.From = certain, Guess
		r.use(certain, body)
	case valid && r.Declared == "" && escapedChinese(body) != "":
		r.Detected, r.From = escapedChinese(body), Guess
		r.use(r.Detected, body)
	case valid:
		r.Detected, r.From = utf8Name, Valid
		r.use(utf8Name, body)
	default:
		r.Detected = Detect(body)
		r.fallBack(body)
	}
	return r
}

// fallBack reads a body that is no UTF-8, and not what it was declared as.
func (r *Result) fallBack(body []byte) {
	switch {
	case r.Detected != "":
		r.From = Guess
		r.use(r.Detected, body)
	case lookUp(normal(r.Declared)) != nil:
		r.From = r.By // with replacement: nothing fits better
		r.use(normal(r.Declared), body)
	default:
		r.From = Default
		r.use(utf8Name, body)
	}
}

// use decodes the body.
func (r *Result) use(name string, body []byte) {
	r.Used = name
	r.Text, r.Replaced = decode(name, body)
}

// normal is the encoding that a declared one is read as.
func normal(name string) string {
	if name == "gbk" {
		return gb18030
	}
	return name
}

// Name is the standard's name of an encoding, in lower case, by one of its labels; "" if it is unknown.
func Name(label string) string {
	label = strings.ToLower(strings.Trim(label, " \t\r\n\f\"'"))
	if label == "hz-gb-2312" { // which the standard refuses
		return label
	}
	e, err := htmlindex.Get(label)
	if err != nil || e == encoding.Replacement {
		return ""
	}
	name, err := htmlindex.Name(e)
	if err != nil {
		return ""
	}
	return name
}

// lookUp is an encoding by its name, nil if there is none.
func lookUp(name string) encoding.Encoding {
	if name == "hz-gb-2312" {
		return simplifiedchinese.HZGB2312
	}
	e, err := htmlindex.Get(name)
	if err != nil || e == encoding.Replacement {
		return nil
	}
	return e
}

// betrayed tells whether a body cannot be in an encoding as it is valid UTF-8, with too many characters of
// several bytes for chance; or as it would have looked otherwise.
func betrayed(name string, body []byte, valid bool) bool {
	switch {
	case name == utf8Name:
		return false
	case strings.HasPrefix(name, "utf-16"):
		return true
	}
	return valid && countMultibyte(body) >= enoughMultibyte(name)
}

// enoughMultibyte is how many characters of several bytes make a text UTF-8 though it was declared
// otherwise: docs/charsets.md has the measurement. One is enough where servers declare windows-1252 (as
// ISO 8859-1) for whatever they have.
func enoughMultibyte(name string) int {
	if name == "windows-1252" {
		return 1
	}
	return 3
}

// try reads the body as it was declared, and tells whether hardly a byte of it is no character there.
func (r *Result) try(name string, body []byte, certain bool) bool {
	if lookUp(normal(name)) == nil {
		return false
	}
	text, replaced := decode(normal(name), body)
	if replaced > mostInvalid(body) && !certain {
		return false
	}
	r.Used, r.Text, r.Replaced = normal(name), text, replaced
	return true
}

// mostInvalid is how many faults a body may have in the encoding that it was declared as.
func mostInvalid(body []byte) int { return 2 + beyondASCII(body)/100 }

func beyondASCII(body []byte) (n int) {
	for _, c := range body {
		if c >= 0x80 {
			n++
		}
	}
	return n
}

// countMultibyte counts the characters of a valid UTF-8 text that are no ASCII.
func countMultibyte(body []byte) (n int) {
	for _, c := range body {
		if c >= 0xc0 {
			n++
		}
	}
	return n
}

func invalidUTF8(body []byte) (n int) {
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		if r == utf8.RuneError && size == 1 {
			n++
		}
		body = body[size:]
	}
	return n
}

// decode makes UTF-8, and counts what had to be replaced.
func decode(name string, body []byte) (text []byte, replaced int) {
	if name == utf8Name {
		if utf8.Valid(body) {
			return body, 0
		}
		text = make([]byte, 0, len(body)+16)
		for len(body) > 0 {
			r, size := utf8.DecodeRune(body)
			if r == utf8.RuneError && size == 1 {
				replaced++
				text = utf8.AppendRune(text, utf8.RuneError)
			} else {
				text = append(text, body[:size]...)
			}
			body = body[size:]
		}
		return text, replaced
	}
	e := lookUp(name)
	text, err := e.NewDecoder().Bytes(body)
	if err != nil { // of no decoder that we know
		return decode(utf8Name, body)
	}
	return text, bytes.Count(text, []byte("\uFFFD"))
}

// cutBOM is the encoding that a byte order mark names, and the body without it.
func cutBOM(body []byte) (string, []byte) {
	for _, mark := range []struct{ name, bytes string }{{utf8Name, "\xEF\xBB\xBF"}, {"utf-16le", "\xFF\xFE"}, {"utf-16be", "\xFE\xFF"}} {
		if rest, ok := bytes.CutPrefix(body, []byte(mark.bytes)); ok {
			return mark.name, rest
		}
	}
	return "", body
}

// looksWide tells a UTF-16 text without mark: of its first bytes those in every other place are
// zero in a good part, the others rarely. Every text with tags has such ASCII.
func looksWide(body []byte) string {
	head := body[:min(len(body), 1024)&^1]
	var even, odd int
	for i := 0; i < len(head); i += 2 {
		if head[i] == 0 {
			even++
		}
		if head[i+1] == 0 {
			odd++
		}
	}
	pairs := len(head) / 2
	switch {
	case pairs < 4:
	case odd*8 > pairs && even*4 < odd: // some characters of East Asia have a zero in the other place
		return "utf-16le"
	case even*8 > pairs && odd*4 < even:
		return "utf-16be"
	}
	return ""
}
