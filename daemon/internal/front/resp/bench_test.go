package resp_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// What the port costs an item, with a client that only sends and reads: in pipelines of 100 commands,
// and in commands of 1,000 items, half of them seen.
func BenchmarkPipelines(b *testing.B) {
	for name, add := range map[string]func(urls []string) string{
		"BF.ADD": func(urls []string) (all string) {
			for _, u := range urls {
				all += command("BF.ADD", "uri", u)
			}
			return all
		},
		"BF.MADD": func(urls []string) string { return command(append([]string{"BF.MADD", "uri"}, urls...)...) },
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			c := r.dial(b)
			n, answer := 100, 400
			if name == "BF.MADD" {
				n, answer = 1000, 4007
			}
			var texts []string
			for i := range 100 {
				urls := make([]string, n)
				for j := range urls {
					urls[j] = fmt.Sprintf("https://www.example.com/catalogue/item/%016x/index.html", (i*n+j)/2*0x9e3779b9)
				}
				texts = append(texts, add(urls))
			}
			got := make([]byte, answer)
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				if _, err := io.Copy(c, strings.NewReader(texts[i/n%len(texts)])); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, got); err != nil || got[len(got)-1] != '\n' {
					b.Fatalf("%q, %v", got, err)
				}
			}
		})
	}
}

// A command allocates nothing that grows with the number of kinds, commands or items.
func TestCommandsAllocateNothingPerItem(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	var single string
	urls := []string{"BF.MADD", "uri"}
	for i := range 1000 {
		u := fmt.Sprintf("https://www.example.com/%d", i)
		urls = append(urls, u)
		if i < 100 {
			single += command("BF.ADD", "uri", u)
		}
	}
	for _, text := range []string{single, command(urls...)} {
		got := make([]byte, 400)
		if text != single {
			got = make([]byte, 4007)
		}
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, got); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 25 && !apitest.RaceEnabled { // whatever the batch has
			t.Errorf("%.40q...: %.0f allocations", text, allocs)
		}
	}
}
