package items

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// decodeList decodes a JSON array of items.
func decodeList(t testing.TB, array string, lim Limits) (*List, error) {
	t.Helper()
	r := new(Request)
	err := r.Decode([]byte(`{"filter_typeid":1,"uri_list":`+array+`}`), lim)
	return &r.List, err
}

// wantError checks the code and index of an error.
func wantError(t *testing.T, err error, code string, index int) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *Error with code %s", err, code)
	}
	if e.Code != code || e.Index != index {
		t.Fatalf("error %s, index %d (%v), want %s, index %d", e.Code, e.Index, e, code, index)
	}
}

func TestItems(t *testing.T) {
	for _, c := range []struct {
		raw, bytes string
		str        bool
	}{
		{`"http://a/"`, `http://a/`, true},
		{`"天气 é 😀"`, `天气 é 😀`, true},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t", true},
		{`"\u0061\u00e9\u5929\uD83D\ude00"`, "aé天😀", true},
		{`"a\u0000b"`, "a\x00b", true},
		{`"\ufffd"`, "\ufffd", true},
		{"\"a\u2028\x7f\"", "a\u2028\x7f", true},
		{`"http:\/\/www.2cto.com\/a.html"`, "http://www.2cto.com/a.html", true},
		{`"1"`, `1`, true},
		{`" "`, ` `, true},
		{`1`, `1`, false},
		{`1.0`, `1`, false},
		{`10e-1`, `1`, false},
		{`-0`, `0`, false},
		{`-0.0`, `0`, false},
		{`0e99`, `0`, false},
		{`-7`, `-7`, false},
		{`9007199254740992`, `9007199254740992`, false},
		{`-9007199254740992`, `-9007199254740992`, false},
		{`123456789012345`, `123456789012345`, false},
		{`1000000000000000000000`, `1e+21`, false},
		{`100000000000000000000`, `100000000000000000000`, false},
		{`0.1`, `0.1`, false},
		{`0.000001`, `0.000001`, false},
		{`0.0000001`, `1e-7`, false},
		{`1E40`, `1e+40`, false},
		{`1e-400`, `0`, false},
		{`true`, `true`, false},
		{`false`, `false`, false},
		{`[]`, `[]`, false},
		{`{}`, `{}`, false},
		{"[ 1.0 ,\tnull,\n[ true, false ] , \"\\u0041\" ]", `[1,null,[true,false],"A"]`, false},
		{`{"b":2,"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1,"b":2}`, false},
		{`{ "b" : {"z":[{"y":1,"x":2}],"a":{}} , "a" : [ {"d":0,"c":""} , {"e":1} ] }`,
			`{"a":[{"c":"","d":0},{"e":1}],"b":{"a":{},"z":[{"x":2,"y":1}]}}`, false},
		{`[{"b":1,"a":2},{"d":1,"c":2}]`, `[{"a":2,"b":1},{"c":2,"d":1}]`, false},
		{`{"":1,"\u0000":2}`, `{"":1,"\u0000":2}`, false},
		{`["\u001f\u000b\"\\\/\b\f\n\r\t\u007f\u2028"]`, "[\"\\u001f\\u000b\\\"\\\\/\\b\\f\\n\\r\\t\x7f\u2028\"]", false},
	} {
		for _, array := range []string{"[" + c.raw + "]", "[ " + c.raw + " ]", `["before",` + c.raw + `,{"z":0,"y":1},"after"]`} {
			l, err := decodeList(t, array, Limits{})
			if err != nil {
				t.Errorf("%s: %v", array, err)
				continue
			}
			i := min(1, l.Len()-1)
			if got := string(l.Raw(i)); got != c.raw {
				t.Errorf("%s: raw %s, want %s", array, got, c.raw)
			}
			if got := string(l.Bytes(i)); got != c.bytes {
				t.Errorf("%s: bytes %q, want %q", array, got, c.bytes)
			}
			if l.IsString(i) != c.str {
				t.Errorf("%s: string %v, want %v", array, l.IsString(i), c.str)
			}
			if l.Len() == 4 && (string(l.Bytes(0)) != "before" || string(l.Bytes(3)) != "after" || string(l.Bytes(2)) != `{"y":1,"z":0}`) {
				t.Errorf("%s: neighbours %q %q %q", array, l.Bytes(0), l.Bytes(2), l.Bytes(3))
			}
		}
	}
}

func TestBadItems(t *testing.T) {
	for _, c := range []struct {
		raw, code string
		offset    int // in the raw text; -1: not checked
	}{
		{`""`, EmptyItem, 0},
		{`null`, NullItem, 0},
		{`"a\ud800"`, InvalidUTF8, 2},
		{`"\udc00a"`, InvalidUTF8, 1},
		{`"\ud800\u0041"`, InvalidUTF8, 1},
		{`"\ud800\ud800"`, InvalidUTF8, 1},
		{"\"ab\xff\"", InvalidUTF8, 3},
		{"\"\xe5\xa4\"", InvalidUTF8, 1},
		{"\"天\xc0\x80\"", InvalidUTF8, 4},
		{"\"\xed\xa0\x80\"", InvalidUTF8, 1},
		{"\"\xf4\x90\x80\x80\"", InvalidUTF8, 1},
		{"\"\xe5\\u0041\"", InvalidUTF8, 1},
		{"[\"a\xff\"]", InvalidUTF8, 3},
		{"{\"\xff\":1}", InvalidUTF8, 2},
		{`["\udead"]`, InvalidUTF8, 2},
		{`9007199254740993`, InvalidItem, 0},
		{`-9007199254740993`, InvalidItem, 0},
		{`18446744073709551615`, InvalidItem, 0},
		{`100000000000000000000000`, InvalidItem, 0},
		{`1e309`, InvalidItem, 0},
		{`-1e309`, InvalidItem, 0},
		{`[9007199254740993]`, InvalidItem, 1},
		{`{"a":1e999}`, InvalidItem, 5},
		{`{"a":1,"a":1}`, InvalidItem, 0},
		{`{"b":1,"a":2,"\u0062":3}`, InvalidItem, 0},
		{`[{"":1,"":1}]`, InvalidItem, 1},
		{strings.Repeat("9", 400), InvalidItem, 0},
	} {
		_, err := decodeList(t, `["before",`+c.raw+`,"after"]`, Limits{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want %s", c.raw, err, c.code)
			continue
		}
		if e.Code != c.code || e.Index != 1 {
			t.Errorf("%s: error %s, index %d (%v), want %s, index 1", c.raw, e.Code, e.Index, e, c.code)
		}
		at := len(`{"filter_typeid":1,"uri_list":["before",`) + c.offset
		if e.Offset != int64(at) {
			t.Errorf("%s: offset %d, want %d", c.raw, e.Offset, at)
		}
		if want := map[bool]string{true: "twice", false: "send it as a string"}[strings.Count(c.raw, ":") > 1]; c.code == InvalidItem && !strings.Contains(e.Detail, want) {
			t.Errorf("%s: detail %q, want %q in it", c.raw, e.Detail, want)
		}
	}
}

func TestItemLimits(t *testing.T) {
	lim := Limits{Items: 3, ItemBytes: 5}
	for _, array := range []string{
		`["12345","1234\u0035",12345]`, `["天a","b","c"]`, `[[1,2],"1","2"]`, `[]`, `[1e+3,[   1 ],1.00000000]`,
	} {
		if _, err := decodeList(t, array, lim); err != nil {
			t.Errorf("%s: %v", array, err)
		}
	}
	for _, c := range []struct {
		array, code string
		index       int
	}{
		{`["123456"]`, ItemTooLarge, 0},
		{`["a","12345\u0036"]`, ItemTooLarge, 1},
		{`["a","天天"]`, ItemTooLarge, 1},
		{`["a",123456]`, ItemTooLarge, 1},
		{`["a",1e20]`, ItemTooLarge, 1},
		{`["a",[1,2,3]]`, ItemTooLarge, 1},
		{`["a",{"a":1}]`, ItemTooLarge, 1},
		{`["a",["123456789"]]`, ItemTooLarge, 1},
		{`["a","b","c","d"]`, TooManyItems, 3},
		{`[1,2,3,4]`, TooManyItems, 3},
		{`["a", "b", "c", []]`, TooManyItems, 3},
	} {
		for _, pad := range []string{"", strings.Repeat(" ", 64)} { // with room for the scanner, and without
			_, err := decodeList(t, c.array+pad, lim)
			wantError(t, err, c.code, c.index)
		}
	}
}

func TestManyItems(t *testing.T) {
	var b strings.Builder
	want := 3*runLength + 7
	for i := range want {
		fmt.Fprintf(&b, `,"http://www.example.com/%d"`, i)
	}
	l, err := decodeList(t, "["+b.String()[1:]+"]", Limits{Items: want})
	if err != nil || l.Len() != want {
		t.Fatalf("%d items, error %v, want %d", l.Len(), err, want)
	}
	for i := range want {
		if got, want := string(l.Bytes(i)), fmt.Sprintf("http://www.example.com/%d", i); got != want {
			t.Fatalf("item %d is %s, want %s", i, got, want)
		}
	}
	_, err = decodeList(t, "["+b.String()[1:]+"]", Limits{Items: want - 1})
	wantError(t, err, TooManyItems, want-1)
}

func TestKeys(t *testing.T) {
	l, err := decodeList(t, `["a",1,"1",1.0,{"b":1,"a":2},"{\"a\":2,\"b\":1}",{"a":2,"b":1},"\u0061"]`, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	first := bloom.Sum(1, []byte("first"))
	keys := l.Keys(l.Keys([]bloom.Hash{first}, 7, 0, 3), 7, 3, l.Len())
	want := []bloom.Hash{
		first,
		bloom.Sum(7, []byte("a")), bloom.SumValue(7, []byte("1")), bloom.Sum(7, []byte("1")), bloom.SumValue(7, []byte("1")),
		bloom.SumValue(7, []byte(`{"a":2,"b":1}`)), bloom.Sum(7, []byte(`{"a":2,"b":1}`)), bloom.SumValue(7, []byte(`{"a":2,"b":1}`)),
		bloom.Sum(7, []byte("a")),
	}
	if fmt.Sprint(keys) != fmt.Sprint(want) {
		t.Errorf("keys\n%v, want\n%v", keys, want)
	}
	if bytes.Equal(fmt.Append(nil, l.Keys(nil, 8, 0, l.Len())), fmt.Append(nil, want[1:])) {
		t.Error("keys do not depend on the seed")
	}
}

func TestAppendMarked(t *testing.T) {
	const array = `["a", "b",   "c" ,  "d\u0041", 1.0,{"b":1, "a":2},[ ],"e"` + "\n,\n" + `"f"]`
	raw := []string{`"a"`, `"b"`, `"c"`, `"d\u0041"`, `1.0`, `{"b":1, "a":2}`, `[ ]`, `"e"`, `"f"`}
	l, err := decodeList(t, array, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for set := range 1 << len(raw) {
		fresh := make([]bool, len(raw))
		var want []string
		for i := range raw {
			if fresh[i] = set>>i&1 == 1; fresh[i] {
				want = append(want, raw[i])
			}
		}
		got := string(l.AppendMarked([]byte("x"), fresh))
		if plain := strings.ReplaceAll(got, ", ", ","); plain != "x"+strings.ReplaceAll("["+strings.Join(want, ",")+"]", ", ", ",") {
			t.Fatalf("fresh %b: %s, want %s", set, got, want)
		}
		lines := string(l.AppendMarkedLines([]byte("x"), fresh))
		if want := "x" + strings.Join(append(want, ""), "\n"); lines != want {
			t.Fatalf("fresh %b: lines %q, want %q", set, lines, want)
		}
	}
}
