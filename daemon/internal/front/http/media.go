package http

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// media says how to read a request's body.
type media int

const (
	mediaJSON   media = iota
	mediaForm         // also JSON: the type that curl -d sends
	mediaText         // lines
	mediaNDJSON       // lines of JSON
)

// mediaOf returns the type of the body for a call that takes JSON and streams. Its error is a
// [problem.Error].
func mediaOf(r *http.Request) (media, error) {
	value := r.Header.Get("Content-Type")
	switch value { // the usual ones need no parsing
	case "", "application/json":
		return mediaJSON, nil
	case "application/x-www-form-urlencoded":
		return mediaForm, nil
	}
	base, params, err := mime.ParseMediaType(value)
	if err != nil {
		return 0, unsupportedMedia(value, true)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return 0, unsupportedMedia(value, true)
	}
	switch {
	case base == "text/plain":
		return mediaText, nil
	case base == "application/x-ndjson", base == "application/ndjson":
		return mediaNDJSON, nil
	case base == "application/x-www-form-urlencoded":
		return mediaForm, nil
	case isJSON(base):
		return mediaJSON, nil
	}
	return 0, unsupportedMedia(value, true)
}

// wantJSON checks the body's type for a call that takes only JSON.
func wantJSON(r *http.Request) error {
	m, err := mediaOf(r)
	if err != nil || m == mediaText || m == mediaNDJSON {
		return unsupportedMedia(r.Header.Get("Content-Type"), false)
	}
	return nil
}

func isJSON(base string) bool {
	return base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
}

func unsupportedMedia(value string, streams bool) error {
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
