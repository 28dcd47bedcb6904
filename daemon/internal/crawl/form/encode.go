package form

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// codec encodes the texts of a form.
type codec struct {
	name string
	e    encoding.Encoding // nil: UTF-8
}

// codecOf returns the encoding of the first known label, else that of the page ("pick an encoding
// for the form"). Encodings in which forms cannot be sent become UTF-8.
func codecOf(labels, page string) codec {
	split := func(r rune) bool { return strings.ContainsRune(" \t\r\n\f,;", r) } // commas are an old habit
	for _, label := range append(strings.FieldsFunc(labels, split), page) {
		e, err := htmlindex.Get(label)
		if err != nil {
			continue
		}
		name, err := htmlindex.Name(e)
		if err != nil || e == encoding.Replacement || name == "utf-8" || strings.HasPrefix(name, "utf-16") {
			return codec{name: "UTF-8"}
		}
		return codec{name: name, e: e}
	}
	return codec{name: "UTF-8"}
}

// bytes encodes a text. A character that the encoding cannot hold becomes &#N;, as browsers send it.
func (c codec) bytes(text string) []byte {
	text = strings.ToValidUTF8(text, "\ufffd")
	if c.e == nil {
		return []byte(text)
	}
	if whole, err := c.e.NewEncoder().Bytes([]byte(text)); err == nil && c.name != big5 {
		return whole
	}
	var b []byte
	held := 0 // start of the run that the encoding can hold: some encodings are stateful
	flush := func(end int) {
		run, _ := c.e.NewEncoder().Bytes([]byte(text[held:end])) // the encoding has all of its characters
		b = append(b, run...)
	}
	for i, r := range text {
		if !c.holds(r) {
			flush(i)
			b = append(b, "&#"+strconv.Itoa(int(r))+";"...)
			held = i + utf8.RuneLen(r)
		}
	}
	flush(len(text))
	return b
}

// big5 is the encoding whose standard encoder lacks the Hong Kong characters of its decoder.
const big5 = "big5"

// holds reports whether the encoding has a character.
func (c codec) holds(r rune) bool {
	b, err := c.e.NewEncoder().Bytes([]byte(string(r)))
	return err == nil && !(c.name == big5 && len(b) == 2 && b[0] < 0xa1)
}

// urlencode writes entries as application/x-www-form-urlencoded, with only the names of files.
func (c codec) urlencode(all []entry) []byte {
	var b []byte
	for i, e := range all {
		if i > 0 {
			b = append(b, '&')
		}
		value := e.value
		if e.upload != nil {
			value = e.upload.Name
		}
		b = escape(b, c.bytes(e.name))
		b = append(b, '=')
		b = escape(b, c.bytes(value))
	}
	return b
}

func escape(b, text []byte) []byte {
	for _, x := range text {
		switch {
		case x >= 'a' && x <= 'z', x >= 'A' && x <= 'Z', x >= '0' && x <= '9', x == '*', x == '-', x == '.', x == '_':
			b = append(b, x)
		case x == ' ':
			b = append(b, '+')
		default:
			b = append(b, '%', "0123456789ABCDEF"[x>>4], "0123456789ABCDEF"[x&15])
		}
	}
	return b
}

// multipart writes entries as multipart/form-data, and returns its Content-Type.
func (c codec) multipart(all []entry) (contentType string, body []byte) {
	boundary := "----form" + rand.Text() // occurs in no text: 130 random bits
	var b bytes.Buffer
	quoted := strings.NewReplacer("\r", "%0D", "\n", "%0A", `"`, "%22")
	for _, e := range all {
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", boundary, quoted.Replace(string(c.bytes(e.name))))
		value := c.bytes(e.value)
		if e.upload != nil {
			fmt.Fprintf(&b, "; filename=\"%s\"\r\nContent-Type: %s", quoted.Replace(string(c.bytes(e.upload.Name))), e.upload.Type)
			value = e.upload.Bytes
		}
		b.WriteString("\r\n\r\n")
		b.Write(value)
		b.WriteString("\r\n")
	}
	b.WriteString("--" + boundary + "--\r\n")
	return multipart + "; boundary=" + boundary, b.Bytes()
}

func (c codec) plain(all []entry) []byte {
	var b []byte
	for _, e := range all {
		value := e.value
		if e.upload != nil {
			value = e.upload.Name
		}
		b = append(b, c.bytes(e.name+"="+value+"\r\n")...)
	}
	return b
}
