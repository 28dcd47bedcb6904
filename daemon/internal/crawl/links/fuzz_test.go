package links

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// FuzzExtract: whatever a page contains, the links are absolute, within their bounds, and parse to
// the same URI again, and every link that was begun is counted.
func FuzzExtract(f *testing.F) {
	for _, page := range []string{
		`<base href="//b/"><a href="?q=中" rel=nofollow>x<a href=y>`, `<meta http-equiv=refresh content="0;url='x"><img srcset="a 1x,b (,) 2x">`,
		`<template><a href=x></template></template><a href=\\h\p#f>`, `<title><a href=x></title><svg><a xlink:href="&#x0;">`, `<a href="http:\%zz">`, `<iframe><a href=x></iframe><noscript><a href="1&#10;2">`,
	} {
		f.Add(page, "gbk")
		f.Add(page, "iso-2022-jp")
	}
	at, err := uri.Parse("http://h.example/d/p?q")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, page, encoding string) {
		page = strings.ToValidUTF8(page, "\uFFFD")
		o := Options{Images: true, MaxLinks: 20, Longest: 300, MaxText: 50, Encoding: encoding, Agent: "x"}
		p := Extract([]byte(page), at, o)
		if len(p.Links) > o.MaxLinks || len(p.Schemes) > 32 {
			t.Fatalf("%d links, %d schemes", len(p.Links), len(p.Schemes))
		}
		for _, l := range p.Links {
			again, err := uri.Parse(l.URI.String())
			if err != nil || again.String() != l.URI.String() {
				t.Errorf("%q of %q is read again as %v, %v", l.URI, page, again, err)
			}
			if len(l.URI.String()) > o.Longest || len(l.Text) > o.MaxText || !utf8.ValidString(l.Text) || strings.Contains(l.URI.String(), "#") {
				t.Errorf("%q with text %q is out of bounds", l.URI, l.Text)
			}
		}
	})
}

// BenchmarkExtract: a page of 100 KB with 1,000 links.
func BenchmarkExtract(b *testing.B) {
	page := []byte("<!doctype html><title>x</title><body>" + strings.Repeat(`<p class="c">some words before <a href="/articles/2026/11/some-title.html?id=17">a title</a> after</p>`+"\n", 1000))
	at, err := uri.Parse("http://h.example/")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if p := Extract(page, at, Options{}); len(p.Links) != 1000 {
			b.Fatalf("got %d links, want 1,000", len(p.Links))
		}
	}
}
