package jobfile

import (
	"runtime"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// Whatever a text is made of, reading it takes no more memory than Cost says.
func TestCostIsNotExceeded(t *testing.T) {
	const size = 256 << 10
	fill := func(begin, part, end string) string {
		return begin + strings.Repeat(part, (size-len(begin)-len(end))/len(part)) + end
	}
	for name, text := range map[string]string{
		"lines": fill("name: a\nuris:\n", "- a\n", ""), "empty items": fill("uris:\n", "-\n", ""), "nested": fill("uris:\n", "- - a\n", ""), "nested deeper": fill("uris:\n", "- -  - - - - - -  - - a\n", ""), "keys": fill("uris:\n", "- ? - a\n", ""), "URIs": fill("name: a\nuris:\n", "- http://h/1\n", ""),
		"flow": fill("uris: [", "a,", "]"), "JSON": fill(`{"uris":[`, `"",`, `""]}`), "lists": fill("uris: [", "[],", "]"), "maps": fill("uris: [", "{},", "]"), "pairs": fill("uris: {", "{a}: b,", "}"),
		"one text": fill("name: ", "a", ""), "comments": fill("name: a\n", "#\n", ""), "folded": fill("name: >\n", " a\n", ""),
		"carriage returns": fill("uris:\n", "- a\r", ""), "empty items with carriage returns": fill("uris:\n", "-\r", ""), "next lines": fill("uris:\n", "- a\u0085", ""), "line separators": fill("uris:\n", "- a\u2028", ""),
		"paragraph separators": fill("uris:\n", "- a\u2029", ""), "quoted": fill(`name: "`, `\n`, `"`),
		"UTF-16": "\xff\xfe" + strings.Join(strings.Split(fill("uris:\n", "- - - - - - a\n", ""), ""), "\x00") + "\x00",
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		parts, err := strict.Parse("x", []byte(text)) // the most that is held at a time
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		job, source, _ := Parse("x", []byte(text))
		runtime.GC()
		runtime.ReadMemStats(&after)
		cost, _ := Cost([]byte(text))
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > cost {
			t.Errorf("%s: holds %d KiB of the %d KiB that were told", name, held>>10, cost>>10)
		}
		runtime.KeepAlive(parts)
		runtime.KeepAlive(job)
		runtime.KeepAlive(source)
	}
}
