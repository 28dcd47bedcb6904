package canonical

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// TestCrawlerAgrees: what the crawler asks for when it is given a URI (fetch/uri, which reads URIs as browsers
// do) is the same item as the URI itself: filter and crawler mean the same page.
func TestCrawlerAgrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	const tries = 100_000
	read := 0
	for range tries {
		if agree(t, oddURI(rnd)) {
			read++
		}
		if t.Failed() {
			return
		}
	}
	if read < tries/4 {
		t.Errorf("the crawler reads %d of %d URIs: too few to tell", read, tries)
	}
}

func FuzzCrawlerAgrees(f *testing.F) {
	for _, text := range []string{"http:\\\\0x7f.1:080/a\\..\\b?c\\d", "https://:@[::ffff:1.2.3.4]./", "http:a..:1/%2e%2E/;b%3B", " http://1.2.3.4./\t?'"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}

// agree reports whether the crawler reads text, and compares if it does.
func agree(t *testing.T, text string) bool {
	t.Helper()
	asked, err := uri.Parse(text)
	if err != nil || asked.User != nil || strings.ContainsAny(asked.Host, "\"`{}") { // a user is sent in a header; no host is named like that
		return false
	}
	if asked.Addr.Is4() && strings.ContainsAny(text, "+-_") { // the library takes +1 for a number, which the standard does not
		return false
	}
	var c Canonicalizer
	rule := Rule{Form: Crawl}
	ours, theirs := string(c.Append(nil, []byte(text), rule)), string(c.Append(nil, []byte(asked.String()), rule))
	if ours != theirs {
		t.Errorf("%q is %q; the crawler asks for %q, which is %q", text, ours, asked, theirs)
	}
	return true
}

// oddURI makes a URI from pieces that few clients but browsers read.
func oddURI(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	var b strings.Builder
	b.WriteString(pick("", "", "", " ", "\t", "\x00"))
	b.WriteString(pick("http:", "HTTP:", "https:", "hT\ttps:"))
	b.WriteString(pick("//", "//", "/", "", "\\\\", "\\", "///", "/\\", "/\n/"))
	b.WriteString(pick("", "", "", "@", ":@"))
	b.WriteString(pick("a.example", "A.example", "b\u00fccher.example", "b%C3%BCcher.example", "1", "0x7f.1", "017.0.0.1", "1.2.3.4", "256", "1.256", "0xF.0XA.1", "09",
		"4294967295", "4294967296", "[::1]", "[0:0:0:0:0:0:0:1]", "[1::0:0:2]", "[::FFFF:1.2.3.4]", "[1:2:3:4:5:6:7:8]", "[::1", "\uff11.2.3.4", "a_b", "a..b", "0x", "1.0x.", "a%2eb"))
	b.WriteString(pick("", "", ".", ".."))
	b.WriteString(pick("", "", ":", ":80", ":080", ":0443", ":8080", ":008", ":65536", ":0"))
	for range rnd.IntN(4) {
		b.WriteString(pick("/", "\\"))
		b.WriteString(pick("", "a", "..", ".", "%2e", ".%2E", ";b", "%3B", "%3bx", "a b", "\u00e9", "%", "%zz", "'", "\"<>`{}|^", "a:b@c", "\x7f"))
	}
	b.WriteString(pick("", "?", "?a=1&b", "?b\\c=;&a", "?'\"<>`{}|^", "?\u00e9=%zz", "?a b+c"))
	b.WriteString(pick("", "", "#", "#f\\"))
	return b.String()
}
