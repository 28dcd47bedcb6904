package items

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// left writes the items of a list, with a dash in place of each one that was left out.
func left(l *List) string {
	var b strings.Builder
	holes := l.Holes()
	for i := range l.Len() + 1 {
		for ; len(holes) > 0 && int(holes[0]) == i; holes = holes[1:] {
			b.WriteString("- ")
		}
		if i < l.Len() {
			fmt.Fprintf(&b, "%s ", l.Bytes(i))
		}
	}
	return strings.TrimSpace(b.String())
}

// faultsOf writes the faults of a list as index and code.
func faultsOf(l *List) string {
	var b []string
	for _, f := range l.Faults() {
		b = append(b, fmt.Sprint(f.Index, " ", f.Code))
	}
	return strings.Join(b, ", ")
}

func TestRequestSkips(t *testing.T) {
	for _, c := range []struct{ list, left, faults string }{
		{`"a","b"`, "a b", ""},
		{``, "", ""},
		{`"a","",null,"b"`, "a - - b", "1 empty_item, 2 null_item"},
		{`null`, "-", "0 null_item"},
		{`"a",  9007199254740993 ,1e400, {"k":1,"k":2},[1,{"x":"\ud800"}] ,1`, "a - - - - 1",
			"1 invalid_item, 2 invalid_item, 3 invalid_item, 4 invalid_utf8"},
		{"\"\xff\\\"],\",\"b\"", "- b", "0 invalid_utf8"},
		{"[\"\\u0061\",\"\xff]\"],\"\\u0062\"", "- b", "0 invalid_utf8"}, // half an item was in the arena
		{`"1234567890123456","b","\u0031123456789012345",["12345678901234"]`, "- b - -", "0 item_too_large, 2 item_too_large, 3 item_too_large"},
	} {
		for _, body := range []string{
			`{"invalid":"skip","filter":1,"items":[` + c.list + `]}`,
			`{"filter":1,"items":[` + c.list + `],"invalid":"skip"}`, // given after the list
		} {
			var r Request
			for range 2 { // the second time in used buffers
				if err := r.Decode([]byte(body), Limits{ItemBytes: 15}); err != nil {
					t.Errorf("%s: %v", body, err)
				}
				if got := left(&r.List); got != c.left || faultsOf(&r.List) != c.faults || !r.Skip {
					t.Errorf("%s: %q, %q, want %q, %q", body, got, faultsOf(&r.List), c.left, c.faults)
				}
			}
		}
		for _, invalid := range []string{`null`, `"reject"`} {
			var r Request
			err := r.Decode([]byte(`{"filter":1,"invalid":`+invalid+`,"items":[`+c.list+`]}`), Limits{ItemBytes: 15})
			if want, _, _ := strings.Cut(c.faults, ","); want != "" && (err == nil || fmt.Sprint(err.(*Error).Index, " ", err.(*Error).Code) != want) {
				t.Errorf("%s: %v with invalid %s, want %s", c.list, err, invalid, want)
			}
			if c.faults == "" && err != nil || r.Skip {
				t.Errorf("%s: %v, %v with invalid %s", c.list, err, r.Skip, invalid)
			}
		}
	}
}

// A fault of the body as a whole is an error in any case; without skipping, the first bad item
// is reported before it.
func TestRequestSkipsItemsOnly(t *testing.T) {
	for _, c := range []struct{ rest, strict, skipping string }{
		{`"items":["a",null,tru]`, "null_item", "malformed_json"},
		{`"items":["a",null`, "null_item", "malformed_json"},
		{`"items":["a",null] x`, "null_item", "malformed_json"},
		{"\"items\":[\"\xff\\x\"]", "invalid_utf8", "malformed_json"},
		{"\"items\":[[\"\xff\",}]]", "invalid_utf8", "malformed_json"},
		{`"items":[null,"b","c","d"]`, "null_item", "too_many_items"},
		{`"items":[null,null,null,null]`, "null_item", "too_many_items"},
		{`"items":[null],"more":1`, "null_item", "unknown_field"},
		{`"items":["a"],"more":1`, "unknown_field", "unknown_field"},
	} {
		for invalid, want := range map[string]string{"reject": c.strict, "skip": c.skipping} {
			for _, body := range []string{`{"filter":1,"invalid":"` + invalid + `",` + c.rest + `}`} {
				var r Request
				err := r.Decode([]byte(body), Limits{Items: 3})
				if err == nil || err.(*Error).Code != want || r.List.Skipped() != 0 {
					t.Errorf("%s: %v, want %s", body, err, want)
				}
			}
		}
	}
	for _, value := range []string{`1`, `"Skip"`, `""`, `["skip"]`, `{}`, `true`} {
		err := new(Request).Decode([]byte(`{"filter":1,"items":[],"invalid":`+value+`}`), Limits{})
		if err == nil || err.(*Error).Code != WrongType || !strings.Contains(err.Error(), `want "reject", "skip" or null`) {
			t.Errorf("invalid %s: %v", value, err)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var r Request
	body := `{"filter":1,"invalid":"skip","items":["a",` + strings.Repeat(`null,`, 5000) + `"b"]}`
	if err := r.Decode([]byte(body), Limits{}); err != nil {
		t.Fatal(err)
	}
	if n, listed := r.List.Skipped(), r.List.Faults(); n != 5000 || len(listed) != MaxFaults || listed[99].Index != 100 || r.List.Len() != 2 {
		t.Errorf("%d left out, %d listed, %d items", n, len(listed), r.List.Len())
	}
}

func TestReaderSkips(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, c := range []struct {
		format             Format
		text, left, faults string
	}{
		{Lines, "a\n" + long + "\nb\n", "a - b", "1 item_too_large"},
		{Lines, long + "\r\nb", "- b", "0 item_too_large"},
		{Lines, long, "-", "0 item_too_large"},
		{Lines, "a\n\n" + long + "\n" + long + "\nb\n" + long, "a - - b -", "2 item_too_large, 3 item_too_large, 5 item_too_large"},
		{NDJSON, "\"a\"\nplain\n\n{\"k\":1,\"k\":2}\n1 2\n\"\\u0062\" x\n\"\"\nnull\n[\"\\u0063\",\n\"d\"\n", "a - - - - - - - d",
			"1 malformed_json, 3 invalid_item, 4 malformed_json, 5 malformed_json, 6 empty_item, 7 null_item, 8 malformed_json"},
		{NDJSON, "\"" + strings.Repeat(long, 2) + "\"\n\"b\"\n", "- b", "0 item_too_large"},
	} {
		for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			for _, block := range []int{0, 65, 100, 499, 1 << 20} {
				for _, count := range []int{0, 1, 2} {
					r := NewReader(wrap(strings.NewReader(c.text)), c.format, Limits{Items: count, ItemBytes: 50, Skip: true}, block)
					var all, faults []string
					var l List
					for {
						more, err := r.Next(&l)
						if err != nil {
							t.Fatalf("%q: %v", c.text, err)
						}
						if !more {
							break
						}
						all = append(all, left(&l))
						if f := faultsOf(&l); f != "" {
							faults = append(faults, f)
						}
						if n := l.Len() + l.Skipped(); n == 0 || count > 0 && n > count {
							t.Errorf("%q: a batch of %d, want %d at most", c.text, n, count)
						}
					}
					if got, bad := strings.Join(all, " "), strings.Join(faults, ", "); got != c.left || bad != c.faults {
						t.Errorf("%q, block %d, batches of %d: %q, %q, want %q, %q", c.text, block, count, got, bad, c.left, c.faults)
					}
				}
			}
		}
	}
}

// An endless line is skipped in the memory of one block.
func TestReaderSkipsAnEndlessLine(t *testing.T) {
	source := io.MultiReader(strings.NewReader("a\n"), io.LimitReader(&endless{text: strings.Repeat("x", 8192)}, 64<<20), strings.NewReader("\nb\n"))
	r := NewReader(source, Lines, Limits{ItemBytes: 1000, Skip: true}, 4096)
	var got []string
	var l List
	for {
		more, err := r.Next(&l)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		got = append(got, left(&l))
	}
	if text := strings.Join(got, " "); text != "a - b" || len(r.buf) > 8192 {
		t.Errorf("%q in a buffer of %d bytes", text, len(r.buf))
	}
	if r.offset != 64<<20+5 || r.line != 3 {
		t.Errorf("ends at byte %d, line %d", r.offset, r.line)
	}
}

// FuzzSkip compares lists that leave out bad items with a check of each item alone.
func FuzzSkip(f *testing.F) {
	for _, s := range itemSeeds() {
		f.Add([]byte(s))
	}
	f.Add([]byte("null,\"\",\"a\",[\"\xff\",\"]\"],\"\\\\\xff\",{\"a\":1,\"a\":[]},\"\\ud800\\\"\",1e999,2"))
	f.Fuzz(func(t *testing.T, list []byte) {
		list = slices.Concat([]byte("["), list, []byte("]"))
		var r Request
		err := r.Decode(slices.Concat([]byte(`{"filter":1,"items":`), list, []byte(`,"invalid":"skip"}`)), Limits{})
		var raws []json.RawMessage
		if bad := json.Unmarshal(list, &raws); bad != nil {
			if err == nil {
				t.Fatalf("no error, want %v", bad)
			}
			return
		}
		if err != nil {
			if bytes.Count(list, []byte("["))+bytes.Count(list, []byte("{")) > 9000 {
				return // too deep
			}
			t.Fatal(err)
		}
		var want []string
		var indexes []int
		for i, raw := range raws {
			if it, err := referenceItem(raw); err == nil {
				want = append(want, it.bytes)
			} else {
				want = append(want, "-")
				indexes = append(indexes, i)
			}
		}
		if got := left(&r.List); got != strings.TrimSpace(strings.Join(want, " ")) {
			t.Fatalf("%q, want %q", got, want)
		}
		for i, fault := range r.List.Faults() {
			if fault.Index != indexes[i] {
				t.Fatalf("fault %d is of item %d, want %d", i, fault.Index, indexes[i])
			}
		}
	})
}
