package items

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRequest(t *testing.T) {
	type want struct {
		filter, token string
		expire        float64
		hasExpire     bool
		items         string
	}
	for _, c := range []struct {
		body string
		want want
	}{
		{`{"filter_typeid":1,"uri_list":[]}`, want{filter: "1"}},
		{`{"filter_typeid":"uri_generator","uri_list":["a"]}`, want{filter: "uri_generator", items: "a"}},
		{` { "uri_list" : [ "a" , "b" ] , "expire" : 60 , "access_token" : "s" , "filter_typeid" : 2 } ` + "\r\n\t",
			want{"2", "s", 60, true, "a b"}},
		{`{"access_token":null,"expire":null,"filter_typeid":3,"uri_list":["a"]}`, want{filter: "3", items: "a"}},
		{`{"access_token":"","expire":0,"filter_typeid":3,"uri_list":["a"]}`, want{filter: "3", hasExpire: true, items: "a"}},
		{`{"filter_typeid":1.0,"expire":-1e3,"uri_list":[]}`, want{filter: "1", expire: -1000, hasExpire: true}},
		{`{"filter_typeid":-0,"uri_list":[]}`, want{filter: "0"}},
		{`{"filter_typeid":9007199254740993,"expire":9223372036854775807,"uri_list":[]}`,
			want{filter: "9007199254740993", expire: 9223372036854775807, hasExpire: true}},
		{`{"filter_typeid":1,"expire":0.25,"uri_list":[]}`, want{filter: "1", expire: 0.25, hasExpire: true}},
		{`{"filter\u005ftypeid":"\u0075ri\/\ud83d\ude00","uri_\u006cist":["\u0061",[1]],"access_token":"\"天\u5929"}`,
			want{filter: "uri/😀", token: `"天天`, items: "a [1]"}},
		{`{"filter":"uri","items":["a",1],"access_token":"t","expire":60}`, want{filter: "uri", token: "t", expire: 60, hasExpire: true, items: "a 1"}},
		{`{"items":["a"],"filter_typeid":7}`, want{filter: "7", items: "a"}},
		{`{"uri_list":["a"],"fi\u006cter":"uri"}`, want{filter: "uri", items: "a"}},
		{`{"uri_list":["\u0061",1.0],"access_token":"\u0062","filter_typeid":"\u0063"}`, // items in the arena first
			want{filter: "c", token: "b", items: "a 1"}},
	} {
		var r Request
		for range 2 { // the second time in used buffers
			if err := r.Decode([]byte(c.body), Limits{}); err != nil {
				t.Errorf("%s: %v", c.body, err)
				continue
			}
			var items []string
			for i := range r.List.Len() {
				items = append(items, string(r.List.Bytes(i)))
			}
			got := want{r.Filter, r.Token, r.Expire, r.HasExpire, strings.Join(items, " ")}
			if got != c.want {
				t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
			}
		}
		r.Reset()
		if r.Filter != "" || r.Token != "" || r.Expire != 0 || r.HasExpire || r.List.Len() != 0 {
			t.Errorf("%s: after Reset %+v", c.body, r)
		}
	}
}

func TestBadRequest(t *testing.T) {
	for _, c := range []struct {
		body, code string
		offset     int
		detail     string // a part of it
	}{
		{`{}`, MissingField, -1, "filter_typeid"},
		{`{"uri_list":[]}`, MissingField, -1, "filter_typeid"},
		{`{"filter_typeid":1}`, MissingField, -1, "uri_list"},
		{`{"filter_typeid":1,"uri_list":[],"url":1}`, UnknownField, 33, `"url" is unknown; known are filter_typeid (or filter), uri_list (or items), access_token, expire, invalid`},
		{`{"filter":1}`, MissingField, -1, "member uri_list (or items) is missing"},
		{`{"items":[]}`, MissingField, -1, "member filter_typeid (or filter) is missing"},
		{`{"filter":1,"items":[],"filter":1}`, DuplicateField, 23, "member filter appears twice"},
		{`{"filter":1,"items":[],"filter_typeid":1}`, DuplicateField, 23, "filter and filter_typeid are two names of one member: give one of them"},
		{`{"uri_list":["a"],"filter":1,"items":["a"]}`, DuplicateField, 29, "uri_list and items are two names of one member"},
		{`{"filter":null,"items":[]}`, WrongType, 10, "filter: found null"},
		{`{"items":"a","filter":1}`, WrongType, 9, "items: found a string, want an array"},
		{`{"Filter_typeid":1,"uri_list":[]}`, UnknownField, 1, "Filter_typeid"},
		{`{"":1}`, UnknownField, 1, `""`},
		{`{"filter_typeid":1,"uri_list":[],"filter_typeid":1}`, DuplicateField, 33, "filter_typeid"},
		{`{"uri_list":["a"],"uri_\u006cist":["a"]}`, DuplicateField, 18, "uri_list"},
		{`{"expire":null,"expire":1}`, DuplicateField, 15, "expire"},
		{`{"access_token":"","access_token":""}`, DuplicateField, 19, "access_token"},
		{`{"filter_typeid":"","uri_list":[]}`, WrongType, 17, "found an empty string, want an integer or a string"},
		{`{"filter_typeid":null,"uri_list":[]}`, WrongType, 17, "filter_typeid: found null"},
		{`{"filter_typeid":true,"uri_list":[]}`, WrongType, 17, "found a boolean"},
		{`{"filter_typeid": [1],"uri_list":[]}`, WrongType, 18, "found an array"},
		{`{"filter_typeid":{},"uri_list":[]}`, WrongType, 17, "found an object"},
		{`{"filter_typeid":1.5,"uri_list":[]}`, WrongType, 17, "found the number 1.5"},
		{`{"filter_typeid":1e99,"uri_list":[]}`, WrongType, 17, "1e99"},
		{`{"filter_typeid":9223372036854775808,"uri_list":[]}`, WrongType, 17, "9223372036854775808"},
		{`{"uri_list":"a","filter_typeid":1}`, WrongType, 12, "uri_list: found a string, want an array"},
		{`{"uri_list":null,"filter_typeid":1}`, WrongType, 12, "found null"},
		{`{"uri_list":{"a":1},"filter_typeid":1}`, WrongType, 12, "found an object"},
		{`{"uri_list":3,"filter_typeid":1}`, WrongType, 12, "found a number"},
		{`{"access_token":1}`, WrongType, 16, "access_token: found a number, want a string or null"},
		{`{"access_token":false}`, WrongType, 16, "found a boolean"},
		{`{"expire":"60"}`, ExpireInvalid, 10, "expire: found a string, want a number of seconds or null"},
		{`{"expire":true}`, ExpireInvalid, 10, "found a boolean"},
		{`{"expire":1e400}`, ExpireInvalid, 10, "1e400"},
		{`{"expire":[]}`, ExpireInvalid, 10, "found an array"},
		{`{"filter_typeid":1,"uri_list":[]} x`, MalformedJSON, 34, `unexpected 'x', want nothing more`},
		{`{"filter_typeid":1,"uri_list":[]}{}`, MalformedJSON, 33, "nothing more"},
		{`{"filter_typeid":1,"uri_list":[],}`, MalformedJSON, 33, "want a key"},
		{`{"filter_typeid":1 "uri_list":[]}`, MalformedJSON, 19, "comma"},
		{`{"filter_typeid" 1}`, MalformedJSON, 17, "colon"},
		{`{,}`, MalformedJSON, 1, "key"},
		{"\ufeff" + `{"filter_typeid":1,"uri_list":[]}`, MalformedJSON, 0, "want an object"},
		{``, MalformedJSON, 0, "unexpected end"},
		{`  `, MalformedJSON, 2, "unexpected end"},
		{`[]`, MalformedJSON, 0, "want an object"},
		{`null`, MalformedJSON, 0, "want an object"},
		{`{"filter_typeid":nul}`, MalformedJSON, 20, "null"},
		{`{"filter_typeid":01}`, MalformedJSON, 18, "leading zero"},
		{`{"expire":-}`, MalformedJSON, 11, "digit"},
		{`{"access_token":tru}`, MalformedJSON, 19, "true"},
		{"{\"access_token\":\"\xff\"}", InvalidUTF8, 17, "UTF-8"},
		{`{"filter_typeid":"\ud800"}`, InvalidUTF8, 18, "surrogate"},
		{"{\"\xff\":1}", InvalidUTF8, 2, "0xff"},
	} {
		var r Request
		err := r.Decode([]byte(c.body), Limits{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want %s", c.body, err, c.code)
			continue
		}
		if e.Code != c.code || e.Index != -1 || e.Offset != int64(c.offset) || !strings.Contains(e.Detail, c.detail) {
			t.Errorf("%s: %s %d %d %q, want %s -1 %d %q", c.body, e.Code, e.Index, e.Offset, e.Detail, c.code, c.offset, c.detail)
		}
		if r.Filter != "" || r.Token != "" || r.HasExpire || r.List.Len() != 0 {
			t.Errorf("%s: the error leaves %+v", c.body, r)
		}
	}
}

// whole is a request with every kind of value in it.
const whole = `{"filter_typeid":"uri","access_token":"t\u006f","expire":60,"uri_list":["http://www.example.com/a/rather/long/address", "b",` +
	`"\ud83d\ude00","天气",-1.25e-7,true,null_,{"b":[1,{"d":null,"c":"\n"}],"a":{}},[[],false]]}`

func TestTruncated(t *testing.T) {
	body := strings.Replace(whole, "null_", "9007199254740992", 1)
	var r Request
	if err := r.Decode([]byte(body), Limits{}); err != nil {
		t.Fatal(err)
	}
	for n := range len(body) {
		err := r.Decode([]byte(body)[:n:n], Limits{})
		want := MalformedJSON
		if cut := strings.TrimSuffix(body[:n], `\`); strings.HasSuffix(cut, `\ud83d`) || !utf8.ValidString(cut) {
			want = InvalidUTF8 // in the middle of a character
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != want || want == MalformedJSON && e.Offset != int64(n) {
			t.Errorf("%s: error %v, want %s at %d", body[:n], err, want, n)
		}
	}
}

// TestFlipped mainly checks that no flipped bit causes a panic.
func TestFlipped(t *testing.T) {
	var r Request
	for i := range len(whole) {
		for bit := range 8 {
			b := []byte(whole)
			b[i] ^= 1 << bit
			if err := r.Decode(b, Limits{Items: 100, ItemBytes: 100}); err == nil {
				t.Errorf("%s: no error", b) // null_ makes it malformed
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{NullItem, 3, 40, "null is not an item"}, "item 3, byte 40: null is not an item"},
		{Error{MalformedJSON, -1, 7, "unexpected 'x'"}, "byte 7: unexpected 'x'"},
		{Error{InvalidItem, 0, -1, "d"}, "item 0: d"},
		{Error{MissingField, -1, -1, "member uri_list is missing"}, "member uri_list is missing"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	_, err := decodeList(t, "["+strings.Repeat("9", 10000)+"]", Limits{})
	if n := len(err.Error()); n > 200 {
		t.Errorf("error of %d bytes quotes the whole item", n)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	for _, c := range cases() {
		var r Request
		decode := func() {
			if err := r.Decode(c.body, Limits{Items: 1000, ItemBytes: 1000}); err != nil {
				t.Fatal(err)
			}
		}
		decode()
		keys := r.List.Keys(nil, 1, 0, r.List.Len())
		fresh := make([]bool, len(keys))
		for i := range fresh {
			fresh[i] = i%3 != 0
		}
		answer := r.List.AppendMarked(nil, fresh)
		if n := testing.AllocsPerRun(20, func() {
			decode()
			keys = r.List.Keys(keys[:0], 1, 0, r.List.Len())
			answer = r.List.AppendMarked(answer[:0], fresh)
		}); n != 0 {
			t.Errorf("%s: %v allocations a batch, want none", c.name, n)
		}
	}
}

func TestResetLetsGo(t *testing.T) {
	var r Request
	big := `"\u0061` + strings.Repeat("a", 2*keepBytes) + `",{"k":"` + strings.Repeat("a", 2*keepBytes) + `"}`
	if err := r.Decode([]byte(`{"filter_typeid":1,"uri_list":[`+big+`]}`), Limits{}); err != nil {
		t.Fatal(err)
	}
	r.Reset()
	c := &r.List.canon
	if n := cap(r.List.arena) + cap(c.keys) + cap(c.out); n > 2*keepBytes || r.List.body != nil {
		t.Errorf("after Reset the list holds %d bytes and a body of %d", n, len(r.List.body))
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]float64{"60": 60, "0.5": 0.5, "-1": -1, "1e3": 1000, "0": 0} {
		if got, err := Seconds(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "soon", "1h", "0x10", "01", "1_000", "inf", "NaN", "1e400", " 1", "1 ", "+1", ".5", "null"} {
		var bad *Error
		if got, err := Seconds(text); !errors.As(err, &bad) || bad.Code != ExpireInvalid {
			t.Errorf("%q: %v, %v; want expire_invalid", text, got, err)
		}
	}
}
