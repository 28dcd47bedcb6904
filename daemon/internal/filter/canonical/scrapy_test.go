package canonical

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

const scrapy = `
import json, sys
from w3lib.url import canonicalize_url
json.dump([canonicalize_url(u) for u in json.load(sys.stdin)], sys.stdout)
`

// TestScrapyAgrees: Crawl treats URIs as one if and only if Scrapy's fingerprint does, except
// for the differences that docs/canonical.md lists.
func TestScrapyAgrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	uris := make([]string, 20_000)
	for i := range uris {
		uris[i] = someURI(rnd)
	}
	theirs := canonicalByScrapy(t, uris)
	var c Canonicalizer
	type pair struct{ by, uri string }
	byTheirs, byOurs := map[string]pair{}, map[string]pair{}
	shared := 0
	for i, uri := range uris {
		ours := string(c.Append(nil, []byte(uri), Rule{Form: Crawl}))
		if first, ok := byTheirs[theirs[i]]; ok {
			shared++
			if first.by != ours {
				t.Errorf("one for Scrapy (%q):\n%q -> %q\n%q -> %q", theirs[i], first.uri, first.by, uri, ours)
			}
		} else {
			byTheirs[theirs[i]] = pair{ours, uri}
		}
		if first, ok := byOurs[ours]; ok {
			if first.by != theirs[i] {
				t.Errorf("one for us (%q):\n%q -> %q\n%q -> %q", ours, first.uri, first.by, uri, theirs[i])
			}
		} else {
			byOurs[ours] = pair{theirs[i], uri}
		}
		if t.Failed() {
			return
		}
	}
	if shared < len(uris)/20 || len(byTheirs) < len(uris)/20 {
		t.Errorf("%d URIs are %d addresses for Scrapy: too few of either to tell", len(uris), len(byTheirs))
	}
}

// someURI makes a URI from so few pieces that many URIs are the same address.
func someURI(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	var b strings.Builder
	b.WriteString(pick("", "", "", " ", "\t"))
	b.WriteString(pick("http", "HTTP", "https"))
	b.WriteString("://")
	b.WriteString(pick("a.example", "A.example", "b\u00fccher.example", "xn--bcher-kva.example"))
	b.WriteString(pick("", "", ":", ":8080"))
	for range rnd.IntN(3) {
		b.WriteString("/")
		b.WriteString(pick("", "a", "%61", "b", "~", "%7E", "%7e", "%2F", "%2f", "%3F", ":", "%3a", "\u00e9", "%C3%A9", "%c3%a9", " ", "%20", "a%2Cb", "a,b"))
	}
	if rnd.IntN(2) == 0 {
		b.WriteString("?")
		for i := range rnd.IntN(4) {
			if i > 0 {
				b.WriteString(pick("&", "&&"))
			}
			b.WriteString(pick("a", "%61", "b", "", "c d", "c+d", "c%20d"))
			b.WriteString(pick("", "=", "=1", "=%31", "=2", "=+", "=%2B", "=%2b", "=/", "=%2F", "=\u00e9", "=%c3%a9", "=x=y"))
		}
	}
	b.WriteString(pick("", "", "", "#", "#f", "#?a=1"))
	b.WriteString(pick("", "", "", " "))
	return b.String()
}

func canonicalByScrapy(t *testing.T, uris []string) []string {
	t.Helper()
	in, err := json.Marshal(uris)
	if err != nil {
		t.Fatal(err)
	}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import w3lib").Run() != nil {
			continue
		}
		cmd := exec.Command(python, "-c", scrapy)
		cmd.Stdin = strings.NewReader(string(in))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", python, err, stderr.String())
		}
		var theirs []string
		if err := json.Unmarshal(out, &theirs); err != nil || len(theirs) != len(uris) {
			t.Fatalf("%d answers for %d URIs: %v", len(theirs), len(uris), err)
		}
		return theirs
	}
	t.Skip("no Python that has w3lib, on which Scrapy rests (Debian: python3-w3lib)")
	return nil
}
