package charset

import (
	"bytes"
	"mime"
	"strings"

	"golang.org/x/net/html"
)

// prescan is how many bytes of a page are searched for a declaration. The standard reads
// 1,024; browsers continue to the end of the head, and so do we.
const prescan = 16 << 10

// declarations returns the labels that header and page declare, by priority.
func declarations(body []byte, contentType string) (all []string) {
	if label := ofHeader(contentType); label != "" {
		all = append(all, label)
	}
	head := body[:min(len(body), prescan)]
	label := ofXML(head)
	if label == "" {
		label = ofMeta(head)
	}
	if label != "" {
		all = append(all, wideIsNarrow(label))
	}
	return all
}

// wideIsNarrow: a declaration that could be read as ASCII is not in UTF-16, whatever it says, but in UTF-8.
func wideIsNarrow(label string) string {
	switch name := Name(label); {
	case strings.HasPrefix(name, "utf-16"):
		return utf8Name
	case name == "x-user-defined":
		return "windows-1252"
	}
	return label
}

// ofHeader returns the charset of a Content-Type, even if that is malformed.
func ofHeader(contentType string) string {
	if _, parameters, err := mime.ParseMediaType(contentType); err == nil {
		return strings.Trim(parameters["charset"], " '\"")
	}
	_, after, ok := strings.Cut(strings.ToLower(contentType), ";")
	if !ok {
		return ""
	}
	return ofContent(after)
}

// ofContent finds charset=... in a text, as the standard's algorithm for the content of a meta does.
func ofContent(content string) string {
	lower := strings.ToLower(content)
	for {
		i := strings.Index(lower, "charset")
		if i < 0 {
			return ""
		}
		lower, content = lower[i+len("charset"):], content[i+len("charset"):]
		rest := strings.TrimLeft(content, " \t\r\n\f")
		if !strings.HasPrefix(rest, "=") {
			continue
		}
		rest = strings.TrimLeft(rest[1:], " \t\r\n\f")
		if rest == "" {
			return ""
		}
		if quote := rest[:1]; quote == `"` || quote == "'" {
			label, _, closed := strings.Cut(rest[1:], quote)
			if !closed {
				return ""
			}
			return strings.TrimSpace(label)
		}
		if end := strings.IndexAny(rest, " \t\r\n\f;,"); end >= 0 {
			rest = rest[:end]
		}
		return rest
	}
}

// ofXML returns the encoding of an XML declaration, which is at the very beginning.
func ofXML(head []byte) string {
	head = bytes.TrimLeft(head, " \t\r\n") // blanks before it are a common fault
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return ""
	}
	head, _, ok := bytes.Cut(head, []byte(">"))
	if !ok {
		return ""
	}
	_, after, ok := bytes.Cut(head, []byte("encoding"))
	if !ok {
		return ""
	}
	after = bytes.TrimLeft(after, " \t\r\n")
	if !bytes.HasPrefix(after, []byte("=")) {
		return ""
	}
	after = bytes.TrimLeft(after[1:], " \t\r\n")
	if len(after) == 0 || after[0] != '"' && after[0] != '\'' {
		return ""
	}
	label, _, ok := bytes.Cut(after[1:], after[:1])
	if !ok {
		return ""
	}
	return string(bytes.TrimSpace(label))
}

// ofMeta returns the encoding of the first meta element that names one.
func ofMeta(head []byte) string {
	z := html.NewTokenizer(bytes.NewReader(head))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "noscript":
				z.NextIsNotRawText()
			case "body":
				return ""
			case "meta":
				if label := ofAttributes(z, more); label != "" {
					return label
				}
			}
		}
	}
}

func ofAttributes(z *html.Tokenizer, more bool) string {
	var direct, content string
	var equiv bool
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "charset":
			direct = strings.TrimSpace(string(value))
		case "http-equiv":
			equiv = strings.EqualFold(strings.TrimSpace(string(value)), "content-type")
		case "content":
			content = string(value)
		}
	}
	if direct == "" && equiv {
		return ofContent(content)
	}
	return direct
}
