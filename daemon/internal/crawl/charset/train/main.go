// Command train makes the model of package charset, which says how often letters follow each other in each
// language. From a folder of texts in UTF-8, named LANGUAGE.txt, it writes model.txt. Run it when a language
// is added. Its texts are those that texts.py takes from the translations of programs on a Debian system.
//
//	python3 daemon/internal/crawl/charset/train/texts.py FOLDER
//	go run ./daemon/internal/crawl/charset/train FOLDER > daemon/internal/crawl/charset/model.txt
package main

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// frequent lists characters that are frequent everywhere, the most frequent first, for languages
// whose texts are mostly about computers.
//
//go:embed frequent
var frequent embed.FS

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: train FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no file LANGUAGE.txt", folder)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		language, text := strings.TrimSuffix(filepath.Base(file), ".txt"), string(b)
		switch language {
		case "ja", "ko", "zh-hans", "zh-hant":
			general, err := frequent.ReadFile("frequent/" + language + ".txt")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			characters(out, language, text, []rune(strings.Join(strings.Fields(string(general)), "")))
		default:
			pairs(out, language, text)
		}
	}
	return out.Flush()
}

// maxCharacters is how many characters of a language the model has, the most frequent ones.
const maxCharacters = 1500

// characters writes the frequencies of a language's characters outside ASCII, in groups of similar
// frequency: each line has -10 ln(p) and the characters. Half of each p is the frequency in the
// text; the other half, if there is a list of characters by frequency, follows Zipf's law.
func characters(out *bufio.Writer, language, text string, general []rune) {
	count, all := map[rune]float64{}, 0.0
	for _, r := range text {
		if r >= 0x80 && unicode.IsPrint(r) {
			count[r]++
			all++
		}
	}
	p := map[rune]float64{}
	for r, n := range count {
		if n > 2 {
			p[r] = n / all
		}
	}
	if len(general) > 0 {
		for r := range p {
			p[r] /= 2
		}
		sum := 0.0
		for i := range general {
			sum += 1 / float64(i+10)
		}
		for i, r := range general {
			p[r] += 0.3 / float64(i+10) / sum
		}
	}
	order := slices.SortedFunc(maps.Keys(p), func(a, b rune) int {
		if p[a] != p[b] {
			return -int(math.Copysign(1, p[a]-p[b]))
		}
		return int(a - b)
	})
	fmt.Fprintf(out, "characters %s\n", language)
	level := -1
	for _, r := range order[:min(len(order), maxCharacters)] {
		if l := int(math.Round(-2*math.Log(p[r]))) * 5; l != level {
			if level >= 0 {
				fmt.Fprintln(out)
			}
			level = l
			fmt.Fprintf(out, "%d ", l)
		}
		out.WriteRune(r)
	}
	fmt.Fprintln(out)
}

// pairs writes how likely each letter of an alphabet follows each other one: a line with the alphabet,
// then a line for each preceding letter (first the beginning of a word). Such a line has a code for each
// letter that follows (last the end of the word): a for -ln(p) up to 0.2, b for 0.4 more, and so on.
func pairs(out *bufio.Writer, language, text string) {
	count, all := map[rune]int{}, 0
	text = strings.ToLower(text)
	for _, r := range text {
		if isLetter(r) {
			count[r]++
			all++
		}
	}
	var alphabet []rune
	ascii := 0
	for r, n := range count {
		if r < 0x80 {
			ascii += n
		}
	}
	latin := ascii*2 > all
	for r, n := range count {
		if n*30_000 > all && (r >= 0x80 || latin) && r < 0xe80 { // above that, no single-byte encoding has an alphabet
			alphabet = append(alphabet, r)
		}
	}
	slices.Sort(alphabet)
	index := map[rune]int{}
	for i, r := range alphabet {
		index[r] = i + 1
	}
	n := len(alphabet) + 1
	seen := make([]float64, n*n)
	before := 0 // 0: not a letter
	for _, r := range text {
		i := index[r]
		if before != 0 || i != 0 {
			seen[before*n+(i+n-1)%n]++ // the end of a word is the last column
		}
		before = i
	}
	fmt.Fprintf(out, "pairs %s %s\n", language, string(alphabet))
	for i := range n {
		row := seen[i*n : (i+1)*n]
		sum := 0.0
		for _, c := range row {
			sum += c + 0.5
		}
		for _, c := range row {
			out.WriteByte(byte('a' + min(25, int(math.Round(-math.Log((c+0.5)/sum)/0.4)))))
		}
		fmt.Fprintln(out)
	}
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.M, r) }
