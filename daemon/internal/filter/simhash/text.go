package simhash

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// gramLength is the number of characters of a feature.
const gramLength = 3

// grams calls use with each feature of a text: of its lower-cased word characters, every three
// consecutive ones. feature is valid only until use returns.
func grams(text string, use func(feature []byte)) {
	text = lower(text)
	word := make([]byte, 0, len(text))
	var starts [gramLength]int // of the last characters in word, the oldest first
	n := 0
	for _, r := range text {
		if !isWord(r) {
			continue
		}
		copy(starts[:], starts[1:])
		starts[gramLength-1] = len(word)
		word = utf8.AppendRune(word, r)
		if n++; n >= gramLength {
			use(word[starts[0]:])
		}
	}
	if n < gramLength {
		use(word)
	}
}

// TooShort tells whether a text has fewer word characters than a feature: then its fingerprint
// says nothing about what it is near.
func TooShort(text string) bool {
	n := 0
	for _, r := range text {
		if isWord(r) {
			if n++; n == gramLength {
				return false
			}
		}
	}
	return true
}

// lower returns text in lower case as the Unicode standard defines it. Language-specific rules
// are not applied.
func lower(text string) string {
	if !strings.ContainsRune(text, 'Σ') {
		return strings.ToLower(text)
	}
	all := []rune(text)
	lowered := make([]rune, len(all))
	for i, r := range all {
		lowered[i] = unicode.ToLower(r)
		if r == 'Σ' && casedNext(all[:i], -1) && !casedNext(all[i+1:], 1) {
			lowered[i] = 'ς' // at the end of a word
		}
	}
	return string(lowered)
}

// casedNext tells whether the first character that is not case-ignorable is cased; with a step
// of -1 it searches from the end. (The Unicode Standard 15.0, section 3.13, Final_Sigma.)
func casedNext(text []rune, step int) bool {
	i := 0
	if step < 0 {
		i = len(text) - 1
	}
	for ; i >= 0 && i < len(text); i += step {
		if r := text[i]; !unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) && !strings.ContainsRune(midWord, r) {
			return unicode.In(r, unicode.Ll, unicode.Lu, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
		}
	}
	return false
}

// midWord are the characters with the Word_Break property MidLetter, MidNumLet or
// Single_Quote.
const midWord = "'.:·՟״‘’․‧\u0387\u05f4\u05f3︓﹒﹕＇．："

// isWord tells whether a character is a letter, a number or an underscore. Combining marks
// are not, as in \w of Python's re.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_' || 'A' <= r && r <= 'Z'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}
