package items

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// compareItems compares a list with the items of the reference.
func compareItems(t *testing.T, l *List, want []item) {
	t.Helper()
	if l.Len() != len(want) {
		t.Fatalf("%d items, want %d", l.Len(), len(want))
	}
	for i, w := range want {
		if string(l.Bytes(i)) != w.bytes || l.IsString(i) != w.str {
			t.Fatalf("item %d is %q, string %v; want %q, %v", i, l.Bytes(i), l.IsString(i), w.bytes, w.str)
		}
		if again, err := referenceItem(l.Raw(i)); err != nil || again != w {
			t.Fatalf("item %d: raw %q is %q (%v), want %q", i, l.Raw(i), again.bytes, err, w.bytes)
		}
	}
	fresh := slices.Repeat([]bool{true}, len(want))
	answer := l.AppendMarked(nil, fresh)
	var raws []json.RawMessage
	if err := json.Unmarshal(answer, &raws); err != nil || len(raws) != len(want) {
		t.Fatalf("answer %q: %d items, error %v, want %d", answer, len(raws), err, len(want))
	}
}

func checkRequest(t *testing.T, body []byte) {
	t.Helper()
	wantRequest, want, wantErr := referenceRequest(body)
	if wantErr == errSkips {
		return
	}
	var r Request
	for range 2 { // the second time in used buffers
		err := r.Decode(body, Limits{})
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			if e := err.(*Error); e.Offset > int64(len(body)) || e.Code == "" || e.Detail == "" {
				t.Fatalf("error %+v of a body of %d bytes", e, len(body))
			}
			continue
		}
		if r.Filter != wantRequest.Filter || r.Token != wantRequest.Token || r.Expire != wantRequest.Expire || r.HasExpire != wantRequest.HasExpire {
			t.Fatalf("%q %q %v %v, want %q %q %v %v", r.Filter, r.Token, r.Expire, r.HasExpire,
				wantRequest.Filter, wantRequest.Token, wantRequest.Expire, wantRequest.HasExpire)
		}
		compareItems(t, &r.List, want)
	}
}

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"filter_typeid":1,"uri_list":["http://www.example.com/a","b"]}`,
		`{"uri_list":[],"expire":-1.5e1,"access_token":"\u0061","filter_typeid":"uri"}`,
		`{"filter_typeid":1e0,"uri_list":[1,1.0,true,{"b":[],"a":null}],"expire":null,"access_token":null}`,
		` { "filter\u005ftypeid" : -0 , "uri_list" : [ "\ud83d\ude00" , [ ] ] } `,
		`{"filter_typeid":1,"filter_typeid":1,"uri_list":null,"x":0}`, `{}`, `[]`, `null`, "\ufeff{}", `{"a":`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkRequest(t, body) })
}

// itemSeeds are lists without their brackets.
func itemSeeds() []string {
	return []string{
		`"http://www.example.com/some/long/address/that/fills/a/vector","b", "c"`, `"\"\\\/\b\f\n\r\t\u0000"`, `"天气","\u5929","\ud83d\ude00"`,
		`"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\xed\xa0\x80\"", `0,-0,1.5,-1e-7,1e21,123456789012345678`, `9007199254740993`, `1e400`, `5e-324`,
		`{"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]}`, `{"a":1,"\u0061":2}`, "{\"\ufb33\":1,\"😀\":2,\"\\r\":3,\"\":4}", `[[[[[]]]]]`, `["\u2028\\u2028\u001f"]`,
		`true,false`, `null`, `""`, `[null,""]`, `01`, `1,`, `"a" "b"`, `[1 2]`, "\"\t\"", " \"a\"\n,\r\t1 ",
		`9007199254740992,-9007199254740992,1000000000000000000000`, `0.000001,0.0000009999999999999997`,
	}
}

func FuzzItems(f *testing.F) {
	for _, s := range itemSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		checkRequest(t, slices.Concat([]byte(`{"filter_typeid":1,"uri_list":[`), list, []byte(`]}`)))
		// There is room after the end of the list, so that the fast scanner sees all of it.
		checkRequest(t, slices.Concat([]byte(`{"filter_typeid":1,"uri_list":[`), list, []byte(`]}`), bytes.Repeat([]byte{' '}, 64)))
	})
}

// FuzzReader compares the reader with splitting the whole text at once.
func FuzzReader(f *testing.F) {
	for _, s := range itemSeeds() {
		f.Add([]byte(strings.ReplaceAll(s, ",", "\n")), 70, 2)
	}
	f.Add([]byte("\ufeffa\r\n\r\nb\n\xff\r\r\n"+strings.Repeat("x", 200)), 64, 0)
	f.Fuzz(func(t *testing.T, text []byte, block, count int) {
		if block < 0 || block > 1<<16 || count < 0 {
			return
		}
		lines := strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n")
		var want []string
		var values []item
		var bad error
		for i, line := range lines {
			if i+1 < len(lines) {
				line = strings.TrimSuffix(line, "\r")
			}
			if line != "" {
				want = append(want, line)
			}
			if strings.Trim(line, " \t\r") == "" || bad != nil {
				continue
			}
			if !json.Valid([]byte(line)) {
				bad = fmt.Errorf("line %d", i)
				continue
			}
			it, err := referenceItem([]byte(line))
			bad = err
			values = append(values, it)
		}
		all, err := batches(NewReader(bytes.NewReader(text), Lines, Limits{Items: count}, block))
		if got := slices.Concat(all...); err != nil || !slices.Equal(got, want) {
			t.Fatalf("lines %q, error %v, want %q", got, err, want)
		}
		all, err = batches(NewReader(bytes.NewReader(text), NDJSON, Limits{Items: count}, block))
		if (err == nil) != (bad == nil) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("values %q, error %v, want %v", all, err, bad)
		}
		for i, got := range slices.Concat(all...) {
			if got != values[i].bytes {
				t.Fatalf("value %d is %q, want %q", i, got, values[i].bytes)
			}
		}
		if n := len(slices.Concat(all...)); err == nil && n != len(values) {
			t.Fatalf("%d values, want %d", n, len(values))
		}
	})
}
