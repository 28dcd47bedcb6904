package http

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAcceptedCoding(t *testing.T) {
	known := allCodings()
	for header, want := range map[string]string{
		"":                                   "",
		"gzip":                               "gzip",
		"x-gzip":                             "gzip",
		"GZIP":                               "gzip",
		"gzip, deflate, br":                  "gzip",
		"gzip, deflate, br, zstd":            "zstd",
		"zstd;q=0.5, gzip;q=0.6":             "gzip",
		"zstd; q=0.5 ,gzip ; Q=0.500":        "zstd",
		"zstd;q=0, gzip;q=0.001":             "gzip",
		"gzip;q=0":                           "",
		"*":                                  "zstd",
		"*;q=0":                              "",
		"zstd;q=0, *":                        "gzip",
		"*;q=0, gzip":                        "gzip",
		"identity":                           "",
		"identity, gzip":                     "gzip",
		"identity, gzip;q=0.9":               "",
		"identity;q=0, br":                   "",
		"identity;q=0.5, gzip;q=0.8":         "gzip",
		"deflate, br":                        "",
		"gzip;q=2":                           "",
		"gzip;q=-1":                          "",
		"gzip;q=NaN":                         "",
		"gzip;level=9":                       "",
		",, ;q=1, gzip":                      "gzip",
		"gzip;q=1.0, identity; q=0.5, *;q=0": "gzip",
	} {
		got := ""
		if k := acceptedCoding([]string{header}, known); k != nil {
			got = k.name
		}
		if got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
	if k := acceptedCoding(nil, known); k != nil {
		t.Errorf("no header: %s", k.name)
	}
	if k := acceptedCoding([]string{"br", "gzip"}, known); k == nil || k.name != "gzip" {
		t.Error("two lines of the header are not one list")
	}
}

const itemText = `"https://www.example.com/a/rather/ordinary/path/of/a/page?n=00000000"`

// BenchmarkCompression compresses an answer with 10,000 items of 67 bytes each, all new.
func BenchmarkCompression(b *testing.B) {
	list := slices.Repeat([]string{itemText}, 10_000)
	answer := []byte(`{"uri_list":[` + strings.Join(list, ",") + `],"total":10000,"duplicates":0}`)
	at := len(`{"uri_list":[`)
	for i := range 10_000 { // different items, as URIs of one site are
		copy(answer[at+len(itemText)-9:], fmt.Sprintf("%08x", uint32(i)*2654435761))
		at += len(itemText) + 1
	}
	for _, k := range allCodings() {
		b.Run(k.name, func(b *testing.B) {
			var packed bytes.Buffer
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				packed.Reset()
				p := k.open(&packed)
				if _, err := p.Write(answer); err != nil {
					b.Fatal(err)
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
				k.release(p)
			}
			b.ReportMetric(float64(packed.Len())/float64(len(answer)), "ratio")
		})
	}
}
