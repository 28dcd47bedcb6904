package items

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// TestMalformed lists for every text the offset of its error.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		value  string
		offset int
	}{
		{`01`, 1}, {`-01`, 2}, {`00`, 1}, {`-`, 1}, {`1.`, 2}, {`.5`, 0}, {`-.5`, 1}, {`1e`, 2}, {`1e+`, 3}, {`1.e1`, 2}, {`1E-x`, 3},
		{`+1`, 0}, {`NaN`, 0}, {`Infinity`, 0}, {`-Infinity`, 1}, {`0x10`, 1}, {`1_000`, 1}, {`1 2`, 2}, {`- 1`, 1}, {`１`, 0},
		{`nul`, 3}, {`nulL`, 3}, {`True`, 0}, {`truE`, 3}, {`fals`, 4}, {`tru"e"`, 3}, {`truefalse`, 4}, {`undefined`, 0},
		{`'a'`, 0}, {`a`, 0}, {`"a" "b"`, 4}, {`"a""b"`, 3}, {`"a";"b"`, 3},
		{"\"a\nb\"", 2}, {"\"a\tb\"", 2}, {"\"\x00\"", 1}, {"\"天\x1f\"", 4}, {"\"\\u0041\x01\"", 7},
		{`"\x41"`, 2}, {`"\'"`, 2}, {`"\U0041"`, 2}, {`"\ "`, 2}, {"\"\\\n\"", 2}, {`"\a"`, 2},
		{`"\u"`, 3}, {`"\u0"`, 4}, {`"\u00"`, 5}, {`"\u004"`, 6}, {`"\u00g1"`, 5}, {`"\ud83d\u12"`, 11}, {`"\u-041"`, 3}, {`"\u 041"`, 3},
		{`[1,]`, 3}, {`[,1]`, 1}, {`[,]`, 1}, {`[1 2]`, 3}, {`[1;2]`, 2}, {`[`, 1}, {`[1`, 2}, {`[[]`, 3}, {`[1}`, 2},
		{`{"a":1,}`, 7}, {`{,}`, 1}, {`{"a"}`, 4}, {`{"a" 1}`, 5}, {`{"a":}`, 5}, {`{a:1}`, 1}, {`{'a':1}`, 1}, {`{1:1}`, 1}, {`{"a":1 "b":2}`, 7},
		{`{"a":1`, 6}, {`{"a"`, 4}, {`{"a":`, 5}, {`{"a":1]`, 6}, {`{"a":1,"b"}`, 10}, {`{null:1}`, 1}, {`{"a"::1}`, 5},
		{`1//c`, 1}, {`/*c*/1`, 0}, {`1#c`, 1}, {`[1,/**/2]`, 3},
		{"1\f", 1}, {"1\v", 1}, {"1\u00a0", 1}, {"\ufeff1", 0}, {"1\x00", 1}, {"\xff", 0}, {"", 0}, {`]`, 0}, {`}`, 0}, {`,`, 0}, {`:`, 0}, {`\u0031`, 0},
		{`"a`, 2}, {`"a\`, 3}, {`"a\u00`, 6}, {`"`, 1},
	} {
		if json.Valid([]byte(c.value)) {
			t.Errorf("%q: encoding/json finds it well-formed", c.value)
		}
		check := func(body, before string) {
			t.Helper()
			err := new(Request).Decode([]byte(body), Limits{})
			var e *Error
			if !errors.As(err, &e) || e.Code != MalformedJSON {
				t.Errorf("%q: error %v, want %s", body, err, MalformedJSON)
			} else if want := int64(len(before) + c.offset); e.Offset != want {
				t.Errorf("%q: offset %d, want %d (%v)", body, e.Offset, want, e)
			}
		}
		cut := c.offset == len(c.value) // what follows would become part of the value
		before := `{"filter_typeid":1,"uri_list":[["a"],`
		if check(before+c.value, before); !cut {
			check(before+c.value+"]}", before)
		}
		before += `"b",[{"k":[` // one item, nested
		if c.value == `]` {
			continue
		}
		if check(before+c.value, before); !cut {
			check(before+c.value+"]}]]}", before)
		}
	}
}

func TestDepth(t *testing.T) {
	for _, c := range []struct{ open, middle, shut string }{
		{"[", "", "]"}, {`{"a":`, "1", "}"}, {`{"b":0,"a":`, "{}", "}"},
	} {
		inner := 0
		if c.middle == "{}" {
			inner = 1
		}
		at := func(n int) string {
			return strings.Repeat(c.open, n-inner) + c.middle + strings.Repeat(c.shut, n-inner)
		}
		l, err := decodeList(t, "["+at(maxDepth-2)+"]", Limits{})
		if err != nil {
			t.Fatalf("%s to the limit: %v", c.open, err)
		}
		if inner == 1 && !strings.HasPrefix(string(l.Bytes(0)), `{"a":{"a":`) {
			t.Errorf("%s to the limit: not sorted: %.40s", c.open, l.Bytes(0))
		}
		body := `{"filter_typeid":1,"uri_list":[` + at(maxDepth-1) + `]}`
		wantError(t, new(Request).Decode([]byte(body), Limits{}), MalformedJSON, 0)
		if json.Unmarshal([]byte(body), new(any)) == nil {
			t.Errorf("%s past the limit: encoding/json takes it", c.open)
		}
		wantError(t, new(Request).Decode([]byte(`{"filter_typeid":1,"uri_list":[`+strings.Repeat(c.open, 2_000_000)), Limits{}), MalformedJSON, 0)
	}
}

// TestRFC8785Numbers checks the numbers of appendix B of the RFC.
func TestRFC8785Numbers(t *testing.T) {
	for _, c := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		if got := string(appendES6(nil, math.Float64frombits(c.bits))); got != c.want {
			t.Errorf("%016x: %s, want %s", c.bits, got, c.want)
		}
	}
}

func TestRFC8785Examples(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		   "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		   "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
		   "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		// Not from the RFC: both ends of the range that sorts after surrogates, and keys outside it.
		{`{"\uffff":1,"\ue000":2,"\ud83d\ude00":3,"\udbff\udfff":4,"\ud7ff":5,"x\uefff":6,"x\ud800\udc00":7}`,
			"{\"x\U00010000\":7,\"x\uefff\":6,\"\ud7ff\":5,\"😀\":3,\"\U0010ffff\":4,\"\ue000\":2,\"\uffff\":1}"},
	} {
		l, err := decodeList(t, "["+c.in+"]", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(l.Bytes(0)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestCompareUTF16(t *testing.T) {
	ordered := []string{"", "\x00", "a", "aa", "b", "\u00ff", "\u0800", "\ud7ff", "\U00010000", "\U0001f600", "\U0010ffff", "\ue000", "\uefff", "\uf000", "\uffff"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := compareUTF16([]byte(a), []byte(b)); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%+q and %+q: %d", a, b, got)
			}
		}
	}
}
