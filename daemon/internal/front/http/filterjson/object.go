package filterjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// member says where the value of a member goes, and how errors describe valid values.
type member struct {
	to   any
	want string
}

// wholeNumber is encoding/json's name for one.
var wholeNumber = regexp.MustCompile(`^number -?[0-9]+$`)

// found puts encoding/json's name for the value of a member into plain words.
func found(value string) string {
	switch value {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return strings.TrimPrefix(value, "number ")
}

// decodeObject decodes a JSON object whose members must be in into, each at most once.
// encoding/json would accept others, so that typing errors would go unnoticed.
func decodeObject(text []byte, into map[string]member) error {
	d := json.NewDecoder(bytes.NewReader(text))
	bad := func(code, detail string) error {
		offset := d.InputOffset()
		return &problem.Error{Code: code, Detail: detail, Offset: &offset}
	}
	if start, err := d.Token(); err != nil {
		return bad(items.MalformedJSON, err.Error())
	} else if start != json.Delim('{') {
		return bad(items.WrongType, "want an object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return bad(items.MalformedJSON, err.Error())
		}
		name := token.(string) // or Token would have refused it
		to, ok := into[name]
		switch {
		case !ok:
			return unknownField(name, into)
		case seen[name]:
			return bad(items.DuplicateField, name)
		}
		seen[name] = true
		var mismatch *json.UnmarshalTypeError
		switch err := d.Decode(to.to); {
		case errors.As(err, &mismatch) && wholeNumber.MatchString(mismatch.Value):
			// Well-formed, and outside what there can be: as for 0.
			return &problem.Error{Code: problem.InvalidFilter, Detail: name + ": " + outside(found(mismatch.Value), to.want)}
		case errors.As(err, &mismatch):
			return bad(items.WrongType, name+": "+found(mismatch.Value)+": want "+to.want)
		case err != nil:
			return bad(items.MalformedJSON, err.Error())
		}
	}
	if _, err := d.Token(); err != nil {
		return bad(items.MalformedJSON, err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return bad(items.MalformedJSON, "something follows the object")
	}
	return nil
}

func unknownField(name string, into map[string]member) error {
	return &problem.Error{Code: items.UnknownField, Detail: strconv.Quote(name), Known: slices.Sorted(maps.Keys(into))}
}
