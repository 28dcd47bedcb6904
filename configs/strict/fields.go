package strict

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Join makes the whole key of a field: redis and addrs give redis.addrs.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// inline is the tag of a struct whose keys belong to the struct that contains it.
const inline = ",inline"

// Keyed returns the fields of a struct type that have a key, in their order.
func Keyed(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		switch f.Tag.Get("yaml") {
		case "":
		case inline:
			for _, inner := range Keyed(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				fields = append(fields, inner)
			}
		default:
			fields = append(fields, f)
		}
	}
	return fields
}

// Keys lists the keys of a struct type in their order.
func Keys(t reflect.Type) []string {
	var keys []string
	for _, f := range Keyed(t) {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}

// FieldByKey returns the field of a struct that has the key.
func FieldByKey(v reflect.Value, key string) (reflect.Value, bool) {
	for _, f := range Keyed(v.Type()) {
		if f.Tag.Get("yaml") == key {
			return v.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

// Leaf is one setting of a struct, with its whole key. A list is one setting.
type Leaf struct {
	Key   string
	Value reflect.Value
}

// Leaves lists the settings of a struct.
func Leaves(v reflect.Value) (all []Leaf) {
	for _, f := range Keyed(v.Type()) {
		leaf := Leaf{f.Tag.Get("yaml"), v.FieldByIndex(f.Index)}
		if leaf.Value.Kind() != reflect.Struct {
			all = append(all, leaf)
			continue
		}
		for _, inner := range Leaves(leaf.Value) {
			all = append(all, Leaf{Join(leaf.Key, inner.Key), inner.Value})
		}
	}
	return all
}

// setText sets a setting that is not a list from its text, the same way for a file
// and for a variable. It prints no value of a text field.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return wantFor(v, text, err)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return wantFor(v, text, strconv.ErrSyntax)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := ParseWhole(text)
		v.SetInt(n)
		return wantFor(v, text, err)
	case reflect.Uint64:
		n, err := ParseWhole(text)
		if n < 0 {
			n, err = 0, strconv.ErrRange
		}
		v.SetUint(uint64(n))
		return wantFor(v, text, err)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f, err = 0, strconv.ErrRange
		}
		v.SetFloat(f)
		return wantFor(v, text, err)
	default:
		return fmt.Errorf("%s cannot be set from text", v.Type())
	}
	return nil
}

func wantFor(v reflect.Value, text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: want %s", text, Wanted(v))
}

// Wanted says what the text of a setting may be. A special type that is read from text says
// that itself, by a method Wanted.
func Wanted(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case time.Duration:
		return "a time with its unit, such as 500ms, 30s or 5m"
	case interface{ Wanted() string }:
		return v.Wanted()
	}
	switch v.Kind() {
	case reflect.String:
		return `a text, "" for none`
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number such as 0.0001"
	default:
		return "a whole number"
	}
}

// ParseWhole reads 10000000, 10_000_000 and 1e7.
func ParseWhole(text string) (int64, error) {
	plain := text
	if !strings.HasPrefix(text, "_") && !strings.HasSuffix(text, "_") {
		plain = strings.ReplaceAll(text, "_", "")
	}
	n, err := strconv.ParseInt(plain, 10, 64)
	if err == nil || !strings.ContainsAny(plain, "eE") {
		return n, err
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, strconv.ErrSyntax
	}
	return int64(f), nil
}

// suggest names the key that was probably meant, or else all keys.
func suggest(key string, known []string) string {
	if near := Nearest(key, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; known: " + strings.Join(known, ", ")
}

// Nearest returns which of the known names was probably meant, "" for none.
func Nearest(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	near := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if d := distance(name, near); d <= 2 && 2*d < len(near) {
		return near
	}
	return ""
}

// distance is the number of letters to insert, delete or change to turn a into b,
// whatever their case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
