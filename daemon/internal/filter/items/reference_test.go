package items

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The decoder is compared with a reference, which is encoding/json plus the rules that are
// stricter: UTF-8, surrogates, keys, integers.

var errStrict = errors.New("stricter than encoding/json")

// errSkips is returned for bodies that ask to skip items, which FuzzSkip tests.
var errSkips = errors.New("skips")

// item is an item as the reference decodes it.
type item struct {
	bytes string
	str   bool
}

// referenceItem decodes the JSON text of one value.
func referenceItem(raw []byte) (item, error) {
	if err := strictText(raw); err != nil {
		return item{}, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	first, err := d.Token()
	if err != nil {
		return item{}, err
	}
	switch v := first.(type) {
	case nil:
		return item{}, errors.New("null")
	case string:
		if v == "" {
			return item{}, errors.New("empty")
		}
		return item{v, true}, nil
	}
	text, err := referenceValue(d, first)
	return item{text, false}, err
}

func referenceValue(d *json.Decoder, t json.Token) (string, error) {
	switch v := t.(type) {
	case json.Delim:
		if v == '[' {
			return referenceArray(d)
		}
		return referenceObject(d)
	case json.Number:
		return referenceNumber(v.String())
	case string:
		return referenceQuoted(v), nil
	}
	b, err := json.Marshal(t)
	return string(b), err
}

func referenceArray(d *json.Decoder) (string, error) {
	var parts []string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return "", err
		}
		s, err := referenceValue(d, t)
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	_, err := d.Token()
	return "[" + strings.Join(parts, ",") + "]", err
}

func referenceObject(d *json.Decoder) (string, error) {
	members := map[string]string{}
	var keys []string
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return "", err
		}
		key := k.(string)
		if _, ok := members[key]; ok {
			return "", errStrict
		}
		t, err := d.Token()
		if err != nil {
			return "", err
		}
		if members[key], err = referenceValue(d, t); err != nil {
			return "", err
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	for i, k := range keys {
		keys[i] = referenceQuoted(k) + ":" + members[k]
	}
	_, err := d.Token()
	return "{" + strings.Join(keys, ",") + "}", err
}

func referenceQuoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err.Error()
	}
	text := strings.TrimSuffix(b.String(), "\n")
	// encoding/json escapes two characters that RFC 8785 does not; a backslash before
	// them would itself be written twice.
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], `\u2028`), strings.HasPrefix(text[i:], `\u2029`):
			out.WriteString(map[byte]string{'8': "\u2028", '9': "\u2029"}[text[i+5]])
			i += 5
		case text[i] == '\\':
			out.WriteString(text[i : i+2])
			i++
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func referenceNumber(s string) (string, error) {
	var f float64
	if err := json.Unmarshal([]byte(s), &f); err != nil || math.IsInf(f, 0) {
		return "", errStrict
	}
	if !strings.ContainsAny(s, ".eE") {
		exact, ok := new(big.Int).SetString(s, 10)
		held, _ := big.NewFloat(f).Int(nil)
		if !ok || exact.Cmp(held) != 0 {
			return "", errStrict
		}
	}
	if f == 0 {
		return "0", nil
	}
	b, err := json.Marshal(f)
	return string(b), err
}

// strictText refuses well-formed JSON text that contains invalid UTF-8 or half a surrogate
// pair, which encoding/json would replace.
func strictText(raw []byte) error {
	if !utf8.Valid(raw) {
		return errStrict
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] != 'u' {
			continue
		}
		r := hexRune(raw[i+1 : i+5])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+6 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' || utf16.DecodeRune(r, hexRune(raw[i+3:i+7])) == utf8.RuneError {
			return errStrict
		}
		i += 6
	}
	return nil
}

func hexRune(b []byte) rune {
	var r rune
	fmt.Sscanf(string(b), "%04x", &r)
	return r
}

// referenceRequest decodes a whole body.
func referenceRequest(body []byte) (*Request, []item, error) {
	if !json.Valid(body) {
		return nil, nil, errors.New("malformed")
	}
	if err := strictText(body); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("not an object")
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		key := t.(string)
		if long, ok := map[string]string{"filter": "filter_typeid", "items": "uri_list"}[key]; ok {
			key = long
		}
		if members[key] != nil {
			return nil, nil, errors.New("twice")
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, nil, err
		}
		members[key] = raw
	}
	r := new(Request)
	list, err := referenceMembers(r, members)
	if err != nil {
		return nil, nil, err
	}
	var all []item
	for _, raw := range list {
		it, err := referenceItem(raw)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, it)
	}
	return r, all, nil
}

func referenceMembers(r *Request, members map[string]json.RawMessage) (list []json.RawMessage, err error) {
	for key, raw := range members {
		null := string(raw) == "null"
		switch key {
		case "filter_typeid":
			if raw[0] == '"' {
				err = json.Unmarshal(raw, &r.Filter)
			} else {
				var n int64
				n, err = referenceInteger(raw)
				r.Filter = fmt.Sprint(n)
			}
			if null || r.Filter == "" {
				return nil, errors.New("no filter")
			}
		case "uri_list":
			if err = json.Unmarshal(raw, &list); null {
				return nil, errors.New("no list")
			}
		case "access_token":
			err = json.Unmarshal(raw, &r.Token)
		case "expire":
			if !null {
				err = json.Unmarshal(raw, &r.Expire)
				r.HasExpire = true
			}
		case "invalid":
			if text := string(raw); text == `"skip"` {
				err = errSkips
			} else if !null && text != `"reject"` {
				err = errors.New("no such value")
			}
		default:
			return nil, errors.New("unknown member")
		}
		if err != nil {
			return nil, err
		}
	}
	if members["filter_typeid"] == nil || members["uri_list"] == nil {
		return nil, errors.New("missing member")
	}
	return list, nil
}

func referenceInteger(raw []byte) (int64, error) {
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return n, nil
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		return 0, err
	}
	if !bytes.ContainsAny(raw, ".eE") || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return 0, errors.New("not an integer")
	}
	return int64(f), nil
}
