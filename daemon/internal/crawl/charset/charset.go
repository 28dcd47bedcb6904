// Package charset converts text from servers to UTF-8. It follows the order of browsers: a byte order
// mark, the header of the answer, and what the page declares; then, unlike browsers, it examines the
// bytes themselves. It decides by the body, not by the language of the reader, and it knows the
// encodings of the standard (encoding.spec.whatwg.org) and HZ. It fetches nothing and finds no links.
package charset

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// Result is a body as text, and how it was read.
type Result struct {
	Text     []byte // valid UTF-8, without byte order mark; may share memory with the body
	Declared string // the encoding that was declared first, by header or page; its name in the standard, or else the label; "": none was
	Detected string // the guess from the bytes, "" if there is none
	Used     string // the encoding of Text: utf-8, gb18030, ...
	Replaced int    // how many U+FFFD replace bytes that are invalid in Used
}

// Mismatch reports whether the text was not read in the declared encoding, because the body is
// not in it. GBK and GB2312 are read as GB18030, which contains them: that is no mismatch.
func (r *Result) Mismatch() bool {
	return r.Declared != "" && normal(r.Declared) != r.Used
}

// Query is the encoding in which queries of links in this text must be sent: for a text read as
// GB18030 but not declared as such it is gbk.
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

// Decode reads a body that came with a Content-Type, which may be "". Every body has a result.
func Decode(body []byte, contentType string) Result {
	if name, rest := cutBOM(body); name != "" {
		r := Result{Declared: name}
		r.use(name, rest)
		return r
	}
	var r Result
	valid := utf8.Valid(body)
	certain := looksWide(body)
	if certain == "" {
		certain = escapedJapanese(body)
	}
	for _, label := range declarations(body, contentType) {
		name := cmp.Or(Name(label), strings.ToLower(label))
		r.Declared = cmp.Or(r.Declared, name)
		if name == certain || certain == "" && !betrayed(name, body, valid) {
			if r.try(name, body, name == certain) {
				return r
			}
		}
	}
	switch {
	case certain != "":
		r.Detected = certain
		r.use(certain, body)
	case valid && r.Declared == "" && escapedChinese(body) != "":
		r.Detected = escapedChinese(body)
		r.use(r.Detected, body)
	case valid:
		r.Detected = utf8Name
		r.use(utf8Name, body)
	default:
		r.Detected = Detect(body)
		r.fallBack(body)
	}
	return r
}

// fallBack reads a body that is neither UTF-8 nor in its declared encoding.
func (r *Result) fallBack(body []byte) {
	switch {
	case r.Detected != "":
		r.use(r.Detected, body)
	case lookUp(normal(r.Declared)) != nil:
		r.use(normal(r.Declared), body) // with replacement: nothing fits better
	default:
		r.use(utf8Name, body)
	}
}

// use decodes the body.
func (r *Result) use(name string, body []byte) {
	r.Used = name
	r.Text, r.Replaced = decode(name, body)
}

// normal is the encoding that a text in a declared encoding is read as.
func normal(name string) string {
	if name == "gbk" {
		return gb18030
	}
	return name
}

// Name is the standard's name of an encoding, in lower case, by one of its labels; "" if it is unknown.
func Name(label string) string {
	label = strings.ToLower(strings.Trim(label, " \t\r\n\f\"'"))
	if label == "hz-gb-2312" { // the standard refuses it
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

// lookUp returns an encoding by its name, nil if it is unknown.
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

// betrayed reports whether a body cannot be in an encoding because it is valid UTF-8 with too many
// multibyte characters for chance, or, for UTF-16, because it would look different.
func betrayed(name string, body []byte, valid bool) bool {
	switch {
	case name == utf8Name:
		return false
	case strings.HasPrefix(name, "utf-16"):
		return true
	}
	return valid && countMultibyte(body) >= enoughMultibyte(name)
}

// enoughMultibyte is how many multibyte characters make a text UTF-8 although it was declared
// otherwise: docs/charsets.md has the measurement. One is enough for windows-1252 (ISO 8859-1),
// which servers declare for anything.
func enoughMultibyte(name string) int {
	if name == "windows-1252" {
		return 1
	}
	return 3
}

// try reads the body as declared, and reports whether hardly any byte is invalid there.
func (r *Result) try(name string, body []byte, certain bool) bool {
	if lookUp(normal(name)) == nil {
		return false
	}
	text, replaced := decode(normal(name), body)
	if replaced > maxInvalid(body) && !certain {
		return false
	}
	r.Used, r.Text, r.Replaced = normal(name), text, replaced
	return true
}

// maxInvalid is how many invalid bytes a body may have in its declared encoding.
func maxInvalid(body []byte) int { return 2 + beyondASCII(body)/100 }

func beyondASCII(body []byte) (n int) {
	for _, c := range body {
		if c >= 0x80 {
			n++
		}
	}
	return n
}

// countMultibyte counts the characters of a valid UTF-8 text that are not ASCII.
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

// decode converts to UTF-8, and counts replacements.
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
	if err != nil { // no decoder known to us returns one
		return decode(utf8Name, body)
	}
	return text, bytes.Count(text, []byte("\uFFFD"))
}

// cutBOM returns the encoding that a byte order mark names, and the body without it.
func cutBOM(body []byte) (string, []byte) {
	for _, mark := range []struct{ name, bytes string }{{utf8Name, "\xEF\xBB\xBF"}, {"utf-16le", "\xFF\xFE"}, {"utf-16be", "\xFE\xFF"}} {
		if rest, ok := bytes.CutPrefix(body, []byte(mark.bytes)); ok {
			return mark.name, rest
		}
	}
	return "", body
}

// looksWide detects UTF-16 text without a mark: many of its first bytes are zero in every other
// place, and few in the others. Every text with tags contains such ASCII.
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
	case odd*8 > pairs && even*4 < odd: // some East Asian characters have a zero in the other place
		return "utf-16le"
	case even*8 > pairs && odd*4 < even:
		return "utf-16be"
	}
	return ""
}
