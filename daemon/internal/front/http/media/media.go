// Package media decides how to read a request's body: by its Content-Type, and for lines also by
// whether the first bytes can be text.
//
// It decodes nothing.
package media

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// Type says how to read a request's body.
type Type int

// The body types.
const (
	JSON   Type = iota
	Form        // also JSON: the type that curl -d sends
	Text        // lines
	NDJSON      // lines of JSON
)

// Of returns the body's type for a call that takes JSON and streams. Its error is a
// [problem.Error].
func Of(r *http.Request) (Type, error) {
	value := r.Header.Get("Content-Type")
	switch value { // the usual ones need no parsing
	case "", "application/json":
		return JSON, nil
	case "application/x-www-form-urlencoded":
		return Form, nil
	}
	base, params, err := mime.ParseMediaType(value)
	if err != nil {
		return 0, unsupported(value, true)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return 0, unsupported(value, true)
	}
	switch {
	case base == "text/plain":
		return Text, nil
	case base == "application/x-ndjson", base == "application/ndjson":
		return NDJSON, nil
	case base == "application/x-www-form-urlencoded":
		return Form, nil
	case isJSON(base):
		return JSON, nil
	}
	return 0, unsupported(value, true)
}

// WantJSON checks the body's type for a call that takes only JSON.
func WantJSON(r *http.Request) error {
	m, err := Of(r)
	if err != nil || m == Text || m == NDJSON {
		return unsupported(r.Header.Get("Content-Type"), false)
	}
	return nil
}

func isJSON(base string) bool {
	return base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
}

func unsupported(value string, streams bool) error {
	known := []string{"application/json"}
	if streams {
		known = append(known, "application/x-ndjson", "text/plain")
	}
	return &problem.Error{
		Code:   problem.UnsupportedMedia,
		Detail: "Content-Type " + strconv.Quote(value) + ": want " + strings.Join(known, ", ") + ", in UTF-8",
		Known:  known,
		Header: [2]string{"Accept-Post", strings.Join(known, ", ")},
	}
}
