package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "a", "1234567\"", "12345678\\", "https://example.com/\n\x00\x1f\x7f", "新闻\u2028", strings.Repeat("é\"", 20), "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString([]byte("before"), s)[len("before"):]
		if !utf8.ValidString(s) {
			if json.Valid(got) && strings.ToValidUTF8(s, "") == s {
				t.Errorf("%q became %q", s, got)
			}
			return
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != s {
			t.Errorf("%q as %s is %q, %v", s, got, back, err)
		}
	})
}

// FuzzParseFresh compares parseFresh, the quick reader of answers, with encoding/json: if
// parseFresh accepts an answer, both read the same.
func FuzzParseFresh(f *testing.F) {
	f.Add("a,b,c,b,\"", `{"uri_list":["a","c"],"total":5,"duplicates":3}`)
	f.Add("a", `{"uri_list":[],"total":1,"duplicates":1}`)
	f.Add("a", `{"uri_list":["a"`)
	f.Add("a,b", `{"uri_list":["a","b"],"total":99999999999999999999,"duplicates":}`)
	f.Fuzz(func(t *testing.T, list, answer string) {
		items := strings.Split(list, ",")
		req := new(request)
		req.encode("uri", items, callOptions{})
		got, ok := req.parseFresh([]byte(answer), items)
		if !ok || !utf8.ValidString(answer) {
			return
		}
		var want FilterResult[string]
		if err := json.Unmarshal([]byte(answer), &want); err != nil {
			t.Fatalf("%q taken, but: %v", answer, err)
		}
		if !slices.Equal(got.URIList, want.URIList) || got.Total != want.Total || got.Duplicates != want.Duplicates {
			t.Errorf("%q: got %+v, want %+v", answer, got, want)
		}
	})
}

func TestParseFreshTakesTheUsualAnswer(t *testing.T) {
	items, answer := thousand()
	req := new(request)
	req.encode("uri", items, callOptions{})
	got, ok := req.parseFresh(answer, items)
	if !ok || got.Total != 1000 || got.Duplicates != 500 || len(got.URIList) != 500 || got.URIList[499] != items[998] {
		t.Errorf("got %v, %+v", ok, got)
	}
}

// thousand returns 1,000 items of 66 bytes and the answer to them; half of them are new.
func thousand() (items []string, answer []byte) {
	var fresh []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf("https://www.example.com/news/2024/06/18/article-%013d.html", i))
		if i%2 == 0 {
			fresh = append(fresh, items[i])
		}
	}
	answer, _ = json.Marshal(FilterResult[string]{URIList: fresh, Total: 1000, Duplicates: 500})
	return items, answer
}

func BenchmarkEncode(b *testing.B) {
	items, _ := thousand()
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		r := new(request)
		for b.Loop() {
			r.encode("uri", items, callOptions{})
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encodeJSON("uri", items, callOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	items, answer := thousand()
	req := new(request)
	req.encode("uri", items, callOptions{})
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := req.parseFresh(answer, items); !ok {
				b.Fatal("not taken")
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var result FilterResult[string]
			if err := json.Unmarshal(answer, &result); err != nil {
				b.Fatal(err)
			}
		}
	})
}
