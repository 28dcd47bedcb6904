package simhash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// With MD5, the values are those of the Python module simhash: see testdata/vectors.py.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Text, MD5 string }
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors) < 60 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		if got := fmt.Sprintf("%016x", MD5.Fingerprint(v.Text)); got != v.MD5 {
			t.Errorf("%.60q: %s, want %s", v.Text, got, v.MD5)
		}
	}
	var both votes // from the module's own tests
	both.add(MD5.sum([]byte("aaa")))
	both.add(MD5.sum([]byte("bbb")))
	if got := both.majority(); got != 57087923692560392 {
		t.Errorf("aaa, bbb: %d, want 57087923692560392", got)
	}
}

// The sentences in that module's documentation are nearer to each other than another text is to
// any of them. Even so, texts as short as these are far apart: an edit changes a large part of
// their features.
func TestDistances(t *testing.T) {
	texts := []string{
		"How are you? I am fine. Thanks.", "How are u? I am fine.     Thanks.", "How r you?I    am fine. Thanks.",
		"A different text, which has nothing in common with the others: the wind blew over 42 empty gardens.",
	}
	for h, want := range map[FeatureHash][]int{ // 1 and 0, 2 and 0, 2 and 1, then the other text and each
		XXH3: {12, 15, 13, 35, 35, 36},
		MD5:  {14, 13, 17, 27, 29, 26},
	} {
		var got []int
		for i, a := range texts {
			for _, b := range texts[:i] {
				got = append(got, Distance(h.Fingerprint(a), h.Fingerprint(b)))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: distances %v, want %v", h, got, want)
		}
		// Characters that are not word characters do not count.
		if h.Fingerprint("你好，世界！　　呼噜。") != h.Fingerprint("你好　世界　呼噜") {
			t.Errorf("%s: punctuation changes the fingerprint", h)
		}
	}
	if _, err := ParseFeatureHash("sha1"); err == nil {
		t.Error("sha1 is a feature hash")
	}
}

func TestTooShort(t *testing.T) {
	for text, want := range map[string]bool{"": true, "...": true, "a b": true, "\xff\xff\xff": true, "a b c": false, "你好，世": false, "a_1": false} {
		if got := TooShort(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// The digits of votes count as one counter per bit would.
func TestVotes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 254, 255, 256, 257, 510, 511, 512, 10_000} {
		var v votes
		var plain [Bits]int
		for range n {
			value := rnd.Uint64() & rnd.Uint64()
			if rnd.IntN(2) == 0 {
				value = ^value
			}
			v.add(value)
			for i := range plain {
				plain[i] += 2*int(value>>i&1) - 1
			}
		}
		got := v.majority()
		for i, count := range plain {
			if got>>i&1 == 1 != (count > 0) {
				t.Fatalf("%d values: bit %d is %d with a balance of %d", n, i, got>>i&1, count)
			}
		}
	}
}

// FuzzFingerprint compares fingerprints with the definition, applied to each feature of a text.
func FuzzFingerprint(f *testing.F) {
	f.Add("How are you?")
	f.Add("ΟΔΥΣΣΕΥΣ")
	f.Add("\xff\x00a\xf0\x9f")
	f.Fuzz(func(t *testing.T, text string) {
		var word []rune
		for _, r := range lower(text) {
			if isWord(r) {
				word = append(word, r)
			}
		}
		var plain [Bits]int
		for i := range max(len(word)-2, 1) {
			feature := string(word[i:min(i+3, len(word))])
			if !utf8.ValidString(feature) {
				t.Fatalf("feature %q", feature)
			}
			value := XXH3.sum([]byte(feature))
			for b := range plain {
				plain[b] += 2*int(value>>b&1) - 1
			}
		}
		got := XXH3.Fingerprint(text)
		for b, count := range plain {
			if got>>b&1 == 1 != (count > 0) {
				t.Fatalf("%q: bit %d is %d with a balance of %d", text, b, got>>b&1, count)
			}
		}
	})
}

func BenchmarkFingerprint(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 10_000/45)
	for _, h := range []FeatureHash{XXH3, MD5} {
		b.Run(string(h), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				h.Fingerprint(text)
			}
		})
	}
}
