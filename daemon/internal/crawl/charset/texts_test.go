package charset

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// written says in which encodings the texts of testdata/texts are tested, and what people call the languages.
var written = []struct{ language, name, encodings string }{
	{"zh-hans", "Chinese, simplified", "gb18030"},
	{"zh-hant", "Chinese, traditional", "big5"},
	{"ja", "Japanese", "shift_jis euc-jp iso-2022-jp"},
	{"ko", "Korean", "euc-kr"},
	{"ru", "Russian", "windows-1251 koi8-r iso-8859-5 ibm866"},
	{"uk", "Ukrainian", "windows-1251 koi8-u"},
	{"bg", "Bulgarian", "windows-1251"},
	{"el", "Greek", "windows-1253 iso-8859-7"},
	{"de", "German", "windows-1252"},
	{"fr", "French", "windows-1252"},
	{"es", "Spanish", "windows-1252"},
	{"pt", "Portuguese", "windows-1252"},
	{"sv", "Swedish", "windows-1252"},
	{"pl", "Polish", "windows-1250 iso-8859-2"},
	{"cs", "Czech", "windows-1250 iso-8859-2"},
	{"hu", "Hungarian", "windows-1250"},
	{"ro", "Romanian", "windows-1250"},
	{"tr", "Turkish", "windows-1254"},
	{"lt", "Lithuanian", "windows-1257"},
	{"he", "Hebrew", "windows-1255"},
	{"ar", "Arabic", "windows-1256"},
	{"th", "Thai", "windows-874"},
}

func textOf(t *testing.T, language string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/texts/" + language + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// windows are the parts of a text that have about that many bytes in an encoding, and begin 60 bytes apart.
func windows(t *testing.T, text, name string, size int) (all []string) {
	t.Helper()
	var ends, starts []int // of each character, in bytes of text and of the encoding
	bytes := 0
	if name == "iso-2022-jp" {
		name = "euc-jp" // the same without escape sequences
	}
	for i, r := range text {
		starts, ends = append(starts, i), append(ends, bytes)
		bytes += len(encoded(t, name, string(r)))
	}
	last := -60
	for i, at := range ends {
		if at-last < 60 || bytes-at < size {
			continue
		}
		last = at
		j := i
		for j < len(ends) && ends[j]-at < size {
			j++
		}
		end := len(text)
		if j < len(starts) {
			end = starts[j]
		}
		all = append(all, text[starts[i]:end])
	}
	return all
}

// TestNoRaceTexts checks the detector's hit rate on our own texts, none of which were used for the
// model. With -v it prints the table of docs/charsets.md.
func TestNoRaceTexts(t *testing.T) {
	sizes := []struct {
		bytes int
		least float64 // share of hits
	}{{100, 0.85}, {400, 1}, {1000, 1}}
	var table strings.Builder
	for _, w := range written {
		text := textOf(t, w.language)
		for _, name := range strings.Fields(w.encodings) {
			fmt.Fprintf(&table, "| %s | %s |", w.name, name)
			for _, size := range sizes {
				hits, wrong := 0, map[string]int{}
				parts := windows(t, text, name, size.bytes)
				if len(parts) == 0 {
					parts = []string{text}
				}
				for _, part := range parts {
					body := []byte(encoded(t, name, part))
					got := Detect(body)
					if decoded, _ := decode(cmp.Or(got, utf8Name), body); string(decoded) == part { // or under another name
						hits++
					} else {
						wrong[got]++
					}
				}
				fmt.Fprintf(&table, " %d/%d |", hits, len(parts))
				if float64(hits) < size.least*float64(len(parts)) {
					t.Errorf("%s in %s, %d bytes: %d of %d found, want %.0f %%; others were taken for %v", w.name, name, size.bytes, hits, len(parts), size.least*100, wrong)
				}
			}
			table.WriteByte('\n')
		}
	}
	t.Log("\n" + table.String())
}

// TestWholePages: each text in each of its encodings comes out character by character from a page
// with tags, scripts and comments that declares no encoding, or a wrong one.
func TestWholePages(t *testing.T) {
	t.Parallel()
	for _, w := range written {
		page := "<!doctype html><html><head><title>x</title><style>a{b:c}</style><script>var a = '<p>'</script></head><body><!-- y --><p class=\"z\">" +
			strings.ReplaceAll(textOf(t, w.language), "\n", "<br>\n") + "</p></body></html>"
		for _, name := range strings.Fields(w.encodings + " utf-8 utf-16le utf-16be") {
			body := []byte(encoded(t, name, page))
			for _, contentType := range []string{"text/html", "text/html; charset=utf-8", "text/html; charset=" + name} {
				r := Decode(body, contentType)
				if string(r.Text) != page || r.Replaced != 0 {
					t.Errorf("%s in %s, sent as %q: read as %s, %d replaced, begins with %.200q", w.name, name, contentType, r.Used, r.Replaced, r.Text)
				}
			}
		}
		// Valid UTF-8 is UTF-8 whatever is declared.
		if r := Decode([]byte(page), "text/html; charset=gbk"); r.Used != utf8Name || !r.Mismatch() {
			t.Errorf("%s in UTF-8, sent as GBK: read as %s", w.name, r.Used)
		}
	}
}

// TestChanceUTF8 counts short texts in other encodings that by chance are valid UTF-8
// with that many multibyte characters: none of ours.
func TestChanceUTF8(t *testing.T) {
	t.Parallel()
	all, valid := 0, 0
	chance := map[int]int{} // by the number of multibyte characters
	for _, w := range written {
		for _, name := range strings.Fields(w.encodings) {
			if name == "iso-2022-jp" {
				continue
			}
			for _, size := range []int{6, 8, 12, 16, 32} {
				for _, part := range windows(t, textOf(t, w.language), name, size) {
					body := []byte(encoded(t, name, part))
					if beyondASCII(body) == 0 {
						continue
					}
					if all++; utf8.Valid(body) {
						valid++
						chance[countMultibyte(body)]++
					}
				}
			}
		}
	}
	t.Logf("%d texts of 6 to 32 bytes, %d of them valid UTF-8; by the characters of several bytes: %v", all, valid, chance)
	for n := range chance {
		if n >= enoughMultibyte("") {
			t.Errorf("%d are valid UTF-8 with %d characters", chance[n], n)
		}
	}
	if all < 1000 {
		t.Errorf("%d texts were tried, want more", all)
	}
}

// TestModel: the model is complete, and every candidate has an encoding and languages.
func TestModel(t *testing.T) {
	t.Parallel()
	all, err := readModel(modelText)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates {
		if lookUp(c.name) == nil || c.languages == "" {
			t.Errorf("%s: no encoding, or no language", c.name)
		}
		for _, name := range strings.Fields(c.languages) {
			if all[name] == nil {
				t.Errorf("%s: the model has no %s", c.name, name)
			}
		}
	}
	for _, broken := range []string{"ab\n", "pairs x ab\nabc\n", "pairs x ab\nab\n", "characters x\nmany xy\n", "pairs x ก豈\n"} {
		if _, err := readModel(broken); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

// TestNoText: bytes that are not text are not taken for text, but a text with a few faults still is.
func TestNoText(t *testing.T) {
	t.Parallel()
	junk := make([]byte, 4096)
	state := uint32(1)
	for i := range junk {
		state = state*1664525 + 1013904223
		junk[i] = byte(state >> 24)
	}
	if got := Detect(junk); got != "" {
		t.Errorf("noise was taken for %s", got)
	}
	if got := Detect(slices.DeleteFunc(junk, func(c byte) bool { return c == 0 })); got != "" {
		t.Errorf("noise without zeros was taken for %s", got)
	}
	for _, w := range written {
		for _, name := range strings.Fields(w.encodings + " utf-8") {
			body := encoded(t, name, textOf(t, w.language))
			cut := body[:len(body)-1] + "\xff"
			if got := Detect([]byte(cut)); normal(got) != normal(Detect([]byte(body))) {
				t.Errorf("%s in %s with a fault at the end was taken for %q", w.name, name, got)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("<?xml encoding='gbk'?><meta charset=big5>\xd6\xd0"), "text/html; charset=")
	f.Add([]byte("\x1b$B\x1b(B~{VP~}"), "x; charset=\"hz-gb-2312")
	f.Add([]byte("<meta http-equiv=content-type content='charset = \"x"), ";;charset='")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		r := Decode(body, contentType)
		if !utf8.Valid(r.Text) || r.Used == "" || r.Replaced < 0 {
			t.Errorf("%q as %q: used %q, %d replaced, valid %v", body, contentType, r.Used, r.Replaced, utf8.Valid(r.Text))
		}
		_ = r.Query()
	})
}

// BenchmarkDetect: a page of 32 KiB without any declaration.
func BenchmarkDetect(b *testing.B) {
	text, err := os.ReadFile("testdata/texts/ru.txt")
	if err != nil {
		b.Fatal(err)
	}
	body, err := lookUp("koi8-r").NewEncoder().Bytes([]byte("<p>" + strings.Repeat(string(text), 64)))
	if err != nil {
		b.Fatal(err)
	}
	body = body[:32<<10]
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if Detect(body) != "koi8-r" {
			b.Fatalf("got %q", Detect(body))
		}
	}
}
