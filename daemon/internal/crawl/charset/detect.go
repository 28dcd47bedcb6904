package charset

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// candidate is an encoding with the languages that are written in it.
type candidate struct {
	name      string
	prior     int // extra cost of rare encodings
	languages string
}

// candidates are the encodings that Detect can choose. If two read a text alike, the first one wins.
var candidates = []candidate{
	{"windows-1252", 0, "de fr es pt it nl sv da nb fi is ca"},
	{gb18030, 0, "zh-hans"},
	{"big5", 0, "zh-hant"},
	{"shift_jis", 0, "ja"},
	{"euc-jp", 0, "ja"},
	{"euc-kr", 0, "ko"},
	{"windows-1251", 0, "ru uk bg be sr"},
	{"koi8-r", 0, "ru"},
	{"koi8-u", 5, "uk"},
	{"windows-1250", 10, "pl cs sk hu ro hr sl"},
	{"iso-8859-2", 15, "pl cs sk hu ro hr sl"},
	{"windows-1254", 10, "tr"},
	{"windows-1253", 10, "el"},
	{"iso-8859-7", 15, "el"},
	{"windows-1257", 10, "lt lv et"},
	{"windows-1255", 10, "he"},
	{"windows-1256", 10, "ar fa"},
	{"windows-874", 10, "th"},
	{"iso-8859-5", 20, "ru uk bg sr"},
	{"ibm866", 20, "ru"},
	{"x-mac-cyrillic", 30, "ru"},
	{"iso-8859-6", 20, "ar"},
	{"iso-8859-4", 30, "lt lv et"},
	{gb18030, 40, "zh-hant"}, // GBK contains traditional characters, too
}

// maxSample is how many bytes of text are examined; more hardly ever changes the decision.
const maxSample = 8 << 10

// Detect guesses the encoding of the bytes, by the text without tags: it tries each encoding that
// could have made them, with the statistics of the languages written in it, and picks the one in
// which the text is most likely. It returns "" if the bytes look like no text, and utf-8 for ASCII.
func Detect(body []byte) string {
	if name := escapedJapanese(body); name != "" {
		return name
	}
	if name := escapedChinese(body); name != "" {
		return name
	}
	n := beyondASCII(body)
	switch {
	case n == 0:
		return utf8Name
	case bytes.IndexByte(body, 0) >= 0: // not text
		return ""
	case countMultibyte(body) >= 10 && invalidUTF8(body) <= 2+n/100: // truncated, or with a few faults
		return utf8Name
	}
	text := sample(body)
	high := beyondASCII(text)
	best, bestCost := "", math.MaxInt
	for _, c := range candidates {
		if cost, ok := c.cost(text, high, bestCost); ok && cost < bestCost {
			best, bestCost = c.name, cost
		}
	}
	return best
}

// cost is how unlikely the text is; false: it cannot be in that encoding, or its cost exceeds
// limit.
func (c *candidate) cost(text []byte, high, limit int) (cost int, ok bool) {
	decoded, _ := decode(c.name, text)
	s := string(decoded)
	cost = limit - c.prior
	for name := range strings.FieldsSeq(c.languages) {
		l, faults := model()[name].cost(s, cost)
		if faults > 2+high/50 {
			return 0, false
		}
		if l < cost {
			cost, ok = l, true
		}
	}
	return cost + c.prior, ok
}

// escapedJapanese detects ISO-2022-JP by its escape sequences: it is ASCII otherwise.
func escapedJapanese(body []byte) string {
	if bytes.Contains(body, []byte("\x1b$B")) || bytes.Contains(body, []byte("\x1b$@")) {
		if _, replaced := decode("iso-2022-jp", body); replaced <= 2 {
			return "iso-2022-jp"
		}
	}
	return ""
}

// escapedChinese detects HZ, which is between ~{ and ~} in ASCII.
func escapedChinese(body []byte) string {
	if i := bytes.Index(body, []byte("~{")); i >= 0 && bytes.Contains(body[i:], []byte("~}")) && beyondASCII(body) == 0 {
		if text, replaced := decode("hz-gb-2312", body); replaced == 0 && beyondASCII(text) > 0 {
			return "hz-gb-2312"
		}
	}
	return ""
}

// sample is the text of a body without tags, scripts and styles; with them if hardly
// any remains without.
func sample(body []byte) []byte {
	z := html.NewTokenizer(bytes.NewReader(body))
	var text []byte
	skip := false
	for len(text) < maxSample {
		switch z.Next() {
		case html.ErrorToken:
			if beyondASCII(text) < 20 {
				text = around(nil, body)
			}
			return text[:min(len(text), maxSample)]
		case html.TextToken:
			if !skip {
				text = around(text, z.Raw())
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			skip = string(name) == "script" || string(name) == "style"
		case html.EndTagToken:
			skip = false
		}
	}
	return text[:maxSample]
}

// nearby is how many ASCII bytes beside others belong to the sample: the words next to a foreign
// letter. Farther away ASCII says nothing, and kilobytes of it would leave no room for what does.
const nearby = 100

// around appends what is not ASCII, each time with the ASCII nearby, until the sample is full. A
// character is not cut in two: it begins with a byte that is not ASCII, and has four bytes at most.
func around(text, raw []byte) []byte {
	for end := 0; len(text) < maxSample; {
		next := bytes.IndexFunc(raw[end:], func(r rune) bool { return r >= utf8.RuneSelf }) // an invalid byte is U+FFFD
		if next < 0 {
			return text
		}
		start := max(end, end+next-nearby)
		next += end
		for end = next; end < len(raw) && end-next <= nearby; end++ {
			if raw[end] >= utf8.RuneSelf {
				next = end
			}
		}
		text = append(text, raw[start:end]...)
		if end < len(raw) {
			text = append(text, '\n')
		}
	}
	return text
}
