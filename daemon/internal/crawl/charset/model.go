package charset

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// The model has the statistics of languages for Detect, made by the command train, which
// describes the format. All costs are of -10 ln(p): how unlikely something is.
//
//go:embed model.txt
var modelText string

// Costs where the model has no figures, chosen by measurement (docs/charsets.md).
const (
	costASCII   = 30  // a character that is the same in every encoding
	costPair    = 80  // the highest cost of two letters of the alphabet
	costUnknown = 90  // a letter of another language, or unknown in that place
	costSign    = 55  // punctuation that is common on the web
	costSymbol  = 90  // other signs
	costRare    = 115 // an East Asian character that is not among the frequent ones
	costAlone   = 40  // one of them alone beside an ASCII letter: more likely an accented letter
	costForeign = 130 // a character of another script
	costFault   = 170 // not a character
	costCase    = 45  // a capital letter after a small one
)

// language says how likely texts are in one language.
type language struct {
	name string
	// Languages with an alphabet: the letter's row and column; 0: not one of its letters.
	index [tableSize]uint8
	size  int     // letters, and one for the border of a word
	pairs []uint8 // costs, one row per preceding letter; the last column is the end of a word
	latin bool
	// Languages with many characters; nil for others.
	characters map[rune]uint8
}

// tableSize is above all letters of the alphabets: Thai is the last of them.
const tableSize = 0xe80

var model = sync.OnceValue(func() map[string]*language {
	all, err := readModel(modelText)
	if err != nil {
		panic(err) // it is part of the program, and a test reads it
	}
	return all
})

func readModel(text string) (map[string]*language, error) {
	all := map[string]*language{}
	var l *language
	for number, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var err error
		switch kind, rest, _ := strings.Cut(line, " "); {
		case kind == "characters":
			l = &language{name: rest, characters: map[rune]uint8{}}
			all[rest] = l
		case kind == "pairs":
			name, alphabet, _ := strings.Cut(rest, " ")
			l = &language{name: name}
			all[name] = l
			err = l.setAlphabet(alphabet)
		case l == nil:
			err = fmt.Errorf("a line before the first language")
		case l.characters != nil:
			err = l.addCharacters(kind, rest)
		default:
			err = l.addRow(line)
		}
		if err != nil {
			return nil, fmt.Errorf("charset: model, line %d: %w", number+1, err)
		}
	}
	for name, l := range all {
		if l.characters == nil && len(l.pairs) != l.size*l.size {
			return nil, fmt.Errorf("charset: model of %s: %d pairs, want %d", name, len(l.pairs), l.size*l.size)
		}
	}
	return all, nil
}

func (l *language) setAlphabet(alphabet string) error {
	l.size = 1
	for _, r := range alphabet {
		if r >= tableSize {
			continue // a row that is never used
		}
		l.index[r] = uint8(l.size)
		l.latin = l.latin || r < 0x80
		l.size++
	}
	if n := len([]rune(alphabet)) + 1; n != l.size || n > 200 {
		return fmt.Errorf("an alphabet of %d letters, of which %d are below U+%X", n-1, l.size-1, tableSize)
	}
	return nil
}

func (l *language) addCharacters(level, characters string) error {
	cost, err := strconv.ParseUint(level, 10, 8)
	for _, r := range characters {
		l.characters[r] = uint8(cost)
	}
	return err
}

func (l *language) addRow(row string) error {
	if len(row) != l.size {
		return fmt.Errorf("a row of %d, want %d", len(row), l.size)
	}
	for _, c := range []byte(row) {
		l.pairs = append(l.pairs, min(costPair, (c-'a')*4))
	}
	return nil
}

// cost is how unlikely a text is in the language. faults counts characters that cannot be in a
// text. Counting stops when the cost exceeds limit.
func (l *language) cost(text string, limit int) (cost, faults int) {
	if l.characters != nil {
		return l.costOfCharacters(text, limit)
	}
	for len(text) > 0 && cost <= limit {
		n, foreign := word(text)
		if n == 0 {
			r, size := next(text)
			c, fault := costOfSign(r)
			cost += c
			faults += fault
			text = text[size:]
			continue
		}
		if foreign {
			cost += l.costOfWord(text[:n])
		} else {
			cost += n * costASCII
		}
		text = text[n:]
	}
	return cost, faults
}

func (l *language) costOfCharacters(text string, limit int) (cost, faults int) {
	run, before := 0, ' ' // length of a run outside ASCII, and the character before it
	for _, r := range text {
		if cost > limit {
			break
		}
		c, known := l.characters[r]
		switch {
		case r < 0x80:
			cost += costASCII
			if run == 1 && (isASCIILetter(before) || isASCIILetter(r)) {
				cost += costAlone
			}
			run, before = 0, r
			continue
		case known:
			cost += int(c)
		case l.writes(r):
			cost += costRare
		case unicode.IsLetter(r):
			cost += costForeign
		default:
			c, fault := costOfSign(r)
			cost += c + 20
			faults += fault
		}
		run++
	}
	return cost, faults
}

// writes reports whether a character belongs to the language's script.
func (l *language) writes(r rune) bool {
	switch l.name {
	case "ko":
		return unicode.Is(unicode.Hangul, r)
	case "ja":
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
	}
	return unicode.Is(unicode.Han, r)
}

func isASCIILetter(r rune) bool { return r < 0x80 && 'a' <= r|0x20 && r|0x20 <= 'z' }

// costOfWord is the cost of a run of letters, some of which are not ASCII.
func (l *language) costOfWord(word string) (cost int) {
	before, small := 0, false
	for _, r := range word {
		lower := unicode.ToLower(r)
		if lower != r {
			if small {
				cost += costCase
			} else {
				cost += 8
			}
		}
		small = lower == r && unicode.ToUpper(r) != r
		i := 0
		if lower < tableSize {
			i = int(l.index[lower])
		}
		switch {
		case i == 0:
			cost += costUnknown
		default:
			cost += int(l.pairs[before*l.size+i-1])
		}
		before = i
	}
	return cost + int(l.pairs[before*l.size+l.size-1])
}

// word returns the length of the run of letters at the beginning of a text, and whether some are not ASCII.
func word(text string) (n int, foreign bool) {
	for i, r := range text {
		if r < 0x80 {
			if !isASCIILetter(r) {
				return i, foreign
			}
		} else if !unicode.IsLetter(r) && !unicode.Is(unicode.M, r) {
			return i, foreign
		} else {
			foreign = true
		}
	}
	return len(text), foreign
}

func next(text string) (rune, int) {
	for _, r := range text {
		size := len(string(r))
		return r, size
	}
	return 0, 0
}

// costOfSign is the cost of a character that is not a letter; fault is 1 if it cannot be in a text.
func costOfSign(r rune) (cost, fault int) {
	switch {
	case r < 0x80 && (r >= ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\f'):
		return costASCII, 0
	case r == '\uFFFD' || unicode.IsControl(r) || unicode.Is(unicode.Co, r):
		return costFault, 1
	case strings.ContainsRune("\u00a0–—‘’“”„«»…©®°·€№•§", r):
		return costSign, 0
	}
	return costSymbol, 0
}
