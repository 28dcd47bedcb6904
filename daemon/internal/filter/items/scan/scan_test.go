package scan

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// plainRunBytes does what plainRunGo does, one byte at a time.
func plainRunBytes(body []byte, pos int, dst []Span, limit int) (count, end int) {
	for count < len(dst) {
		i := pos + 1
		for i < len(body) && body[i] != '"' && body[i] != '\\' && body[i] >= ' ' && body[i] < 0x80 {
			i++
		}
		if i == len(body) || body[i] != '"' || i == pos+1 || i-pos-1 > limit {
			break
		}
		end = i + 1
		dst[count] = Span{uint32(pos), uint32(end)}
		count++
		rest := body[end:]
		switch {
		case bytes.HasPrefix(rest, []byte(`,"`)) && len(rest) > 2:
			pos = end + 1
		case bytes.HasPrefix(rest, []byte(`, "`)):
			pos = end + 2
		default:
			return count, end
		}
	}
	return count, end
}

// checkRun compares the scanners on a body that begins with a quote at body[0]. With room after
// the body, all accept the same; without it, a scanner may leave the end of the body.
func checkRun(t *testing.T, body []byte, spans, limit int) {
	t.Helper()
	show := func(count, end int, dst []Span) string { return fmt.Sprint(count, end, dst[:count]) }
	for _, pad := range []int{0, 64} {
		padded := append(bytes.Clone(body), strings.Repeat(" ", pad)...)
		want := make([]Span, spans)
		n, end := plainRunBytes(padded, 0, want, limit)
		for _, run := range runners() {
			got := make([]Span, spans+1)
			m, e := run.f(padded, 0, got[:spans], limit)
			if got[spans] != (Span{}) {
				t.Fatalf("%s of %q: wrote past its spans", run.name, padded)
			}
			if pad == 0 && m < n { // it left something: the end of the body must be near
				if next := int(want[m].End); next+32 <= len(padded) {
					t.Fatalf("%s of %q: %d of %d spans, the next ends at %d of %d", run.name, padded, m, n, next, len(padded))
				}
				if e != 0 && m == 0 || m > 0 && e != int(want[m-1].End) {
					t.Fatalf("%s of %q: end %d after %d spans", run.name, padded, e, m)
				}
				n, end = m, e
			}
			if show(m, e, got) != show(n, end, want) {
				t.Fatalf("%s of %q, %d spans, limit %d: %s, want %s", run.name, padded, spans, limit, show(m, e, got), show(n, end, want))
			}
		}
	}
}

func TestPlainRun(t *testing.T) {
	for n := range 140 {
		text := strings.Repeat("a", n)
		for _, after := range []string{"", ",", ", ", `,"`, `, "`, `,"b"`, `, "b"`, `,  "b"`, `"b"`, ` ,"b"`, ",\n\"b\"", `]`, `,1,"b"`, ` "b"`, `,,"b"`} {
			checkRun(t, []byte(`"`+text+`"`+after), 3, math.MaxInt)
			checkRun(t, []byte(`"x","`+text+`"`+after), 5, 50)
		}
		checkRun(t, []byte(`"`+text), 3, math.MaxInt)
	}
	// Every byte at every position of a vector and a word.
	for c := range 256 {
		for at := range 70 {
			text := bytes.Repeat([]byte{'z'}, 80)
			text[at] = byte(c)
			checkRun(t, append(append([]byte{'"'}, text...), `","b","c"`...), 4, math.MaxInt)
		}
	}
	for spans := 1; spans < 6; spans++ {
		checkRun(t, []byte(`"a", "b","c", "d"`), spans, math.MaxInt)
	}
}

func TestTextEnd(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			for _, fill := range []byte{'z', 0x80, 0xff, ' ', '!', '#', '[', ']', 0x7f, 0xa2, 0xdc} {
				text := bytes.Repeat([]byte{fill}, 20)
				text[at] = byte(c)
				want := len(text)
				if c < ' ' || c == '"' || c == '\\' {
					want = at
				}
				if got := TextEnd(text, 0); got != want {
					t.Fatalf("TextEnd(%q) is %d, want %d", text, got, want)
				}
				if c >= 0x80 {
					want = min(want, at)
				}
				if fill >= 0x80 {
					want = 0
					if at == 0 && c < 0x80 && c >= ' ' && c != '"' && c != '\\' {
						want = 1
					}
				}
				if got := PlainEnd(text, 0); got != want {
					t.Fatalf("PlainEnd(%q) is %d, want %d", text, got, want)
				}
			}
		}
	}
	for i := range 21 {
		if got := TextEnd([]byte(`"1234567890123456789"`), i); i > 0 && got != 20 {
			t.Errorf("TextEnd from %d is %d, want 20", i, got)
		}
	}
}

// TestScanStaysInside places the body at the very end of the readable memory.
func TestScanStaysInside(t *testing.T) {
	page := guarded(t)
	for n := 2; n < 200; n++ {
		body := page[len(page)-n:]
		for i := range body {
			body[i] = 'a'
		}
		body[0] = '"'
		for _, run := range runners() {
			if count, _ := run.f(body, 0, make([]Span, 4), math.MaxInt); count != 0 {
				t.Fatalf("%s of %d bytes without a closing quote: %d spans", run.name, n, count)
			}
		}
		copy(body, bytes.Repeat([]byte(`"a",`), n/4))
		for _, run := range runners() {
			run.f(body, 0, make([]Span, 100), math.MaxInt)
		}
		for _, end := range []string{`"`, `",`, `", `} { // where a separator would continue
			text := bytes.Repeat([]byte{'a'}, n)
			text[0] = '"'
			copy(text[max(n-len(end), 1):], end)
			copy(body, text)
			for _, run := range runners() {
				run.f(body, 0, make([]Span, 4), math.MaxInt)
			}
		}
		PlainEnd(body, 0)
		TextEnd(body, 0)
	}
}

func FuzzPlainRun(f *testing.F) {
	f.Add([]byte(`a","b", "c"`), 3, 100)
	f.Add([]byte(strings.Repeat("http://www.example.com/", 3)+`","`+strings.Repeat("x", 70)+`"]`), 8, 1000)
	f.Add([]byte("天气\",\"\\n\",\"\x00"), 2, 3)
	f.Fuzz(func(t *testing.T, body []byte, spans, limit int) {
		if spans < 1 || spans > 1000 || limit < 1 {
			return
		}
		checkRun(t, append([]byte{'"'}, body...), spans, limit)
	})
}

func BenchmarkPlainRun(b *testing.B) {
	var even, ragged []string
	for i := range 1000 {
		even = append(even, fmt.Sprintf("https://www.example-shop.com/category/products/item-%010d.html", i*7919)[:66])
		ragged = append(ragged, fmt.Sprintf("http://h%04d.example.com/%s%d", i, strings.Repeat("x", i*2654435761>>7%90), i%10)) // 30 to 120 bytes
	}
	for name, text := range map[string]string{"urls": strings.Join(even, `","`), "urls-python": strings.Join(even, `", "`), "urls-ragged": strings.Join(ragged, `","`)} {
		body := []byte(`"` + text + `"]` + strings.Repeat(" ", 32))
		dst := make([]Span, 1000)
		for _, run := range runners() {
			b.Run(name+"/"+run.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if n, _ := run.f(body, 0, dst, 64<<10); n < 999 {
						b.Fatal(n)
					}
				}
			})
		}
	}
}
