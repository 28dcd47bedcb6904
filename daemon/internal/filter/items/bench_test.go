package items

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// urls makes n different addresses of 66 bytes.
func urls(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("https://www.example-shop.com/category/products/item-%010d.html", i*7919)[:66]
	}
	return list
}

// ragged makes n addresses of 30 to 120 bytes.
func ragged(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("http://h%04d.example.com/%s%d", i%10000, strings.Repeat("x", i*2654435761>>7%90), i%10)
	}
	return list
}

func body(items []string, separator string) []byte {
	return []byte(`{"filter_typeid":"uri","access_token":"0123456789abcdef","uri_list":[` + strings.Join(items, separator) + `]}`)
}

func quoted(items []string) []string {
	list := make([]string, len(items))
	for i, s := range items {
		list[i] = `"` + s + `"`
	}
	return list
}

func mapped(items []string, f func(string) string) []string {
	list := make([]string, len(items))
	for i, s := range items {
		list[i] = f(s)
	}
	return list
}

func numbered(n int, format string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i*7919)
	}
	return list
}

func cases() []struct {
	name string
	body []byte
} {
	u := urls(1000)
	return []struct {
		name string
		body []byte
	}{
		{"urls", body(quoted(u), ",")},
		{"urls-python", body(quoted(u), ", ")},
		{"urls-indented", body(quoted(u), ",\n    ")},
		{"urls-ragged", body(quoted(ragged(1000)), ",")},
		{"urls-php", body(quoted(mapped(u, func(s string) string { return strings.ReplaceAll(s, "/", `\/`) })), ",")},
		{"chinese", body(quoted(numbered(1000, "http://www.例子.com/分类/商品/详情页面/第%07d号.html")), ",")},
		{"chinese-escaped", body(quoted(numbered(1000, `http://\u4f8b\u5b50.com/\u5206\u7c7b/\u5546%07d\u53f7.html`)), ",")},
		{"integers", body(numbered(1000, "1%09d"), ",")},
		{"fractions", body(numbered(1000, "%d.25"), ",")},
		{"objects", body(numbered(1000, `{"url":"http://www.example.com/%d","depth":3,"a":[1,2]}`), ",")},
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range cases() {
		b.Run(c.name, func(b *testing.B) {
			var r Request
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Decode(c.body, Limits{Items: 100000, ItemBytes: 64 << 10}); err != nil || r.List.Len() != 1000 {
					b.Fatal(r.List.Len(), err)
				}
			}
		})
	}
}

func BenchmarkKeys(b *testing.B) {
	for _, c := range cases()[:1] {
		var r Request
		if err := r.Decode(c.body, Limits{}); err != nil {
			b.Fatal(err)
		}
		var keys []bloom.Hash
		b.ReportAllocs()
		for b.Loop() {
			keys = r.List.Keys(keys[:0], 1, 0, r.List.Len())
		}
	}
}

func BenchmarkAppendMarked(b *testing.B) {
	var r Request
	if err := r.Decode(cases()[0].body, Limits{}); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		fresh func(i int) bool
	}{
		{"all", func(int) bool { return true }},
		{"half", func(i int) bool { return uint32(i)*2654435761>>20&1 == 0 }},
		{"none", func(int) bool { return false }},
	} {
		fresh := make([]bool, r.List.Len())
		for i := range fresh {
			fresh[i] = c.fresh(i)
		}
		b.Run(c.name, func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = r.List.AppendMarked(dst[:0], fresh)
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for _, c := range []struct {
		name   string
		format Format
		text   string
	}{
		{"lines", Lines, strings.Join(urls(100000), "\n")},
		{"ndjson", NDJSON, strings.Join(quoted(urls(100000)), "\n")},
	} {
		b.Run(c.name, func(b *testing.B) {
			var l List
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				r := NewReader(io.MultiReader(strings.NewReader(c.text)), c.format, Limits{Items: 10000, ItemBytes: 64 << 10}, 1<<20)
				for more := true; more; {
					var err error
					if more, err = r.Next(&l); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
