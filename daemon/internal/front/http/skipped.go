package http

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
)

// Calls with invalid=skip (a member or parameter) are told which items were skipped: in the
// answer to a list, and in headers or trailers of a stream, whose lines are items.
const (
	headerInvalid      = "Urifilter-Invalid"       // how many were skipped
	headerInvalidItems = "Urifilter-Invalid-Items" // the first of them, as JSON

	// For a stream this many are listed, in this many bytes: net/http clients accept 4 KiB of
	// trailers in total. For a list there are items.MaxFaults.
	streamFaults      = 20
	streamFaultsBytes = 2500
)

// appendSkipped describes the skipped items of a list.
func (c *call) appendSkipped(dst []byte) []byte {
	dst = append(dst, `,"invalid":`...)
	dst = strconv.AppendInt(dst, int64(c.req.List.Skipped()), 10)
	if faults := c.req.List.Faults(); len(faults) > 0 {
		dst = append(dst, `,"invalid_items":`...)
		dst = append(dst, jsonOf(described(faults))...)
	}
	return dst
}

func described(faults []items.Error) []client.InvalidItem {
	told := make([]client.InvalidItem, len(faults))
	for i, f := range faults {
		told[i] = client.InvalidItem{Index: f.Index, ErrorCode: f.Code, Detail: f.Detail}
	}
	return told
}

func jsonOf(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it can always be marshalled
	}
	return text
}

// skippedLines are the skipped items of a stream.
type skippedLines struct {
	count int64
	first []byte // JSON, without the brackets
	told  int
	full  bool
}

// add adds the skipped items of a batch.
func (s *skippedLines) add(l *items.List) {
	s.count += int64(l.Skipped())
	for _, told := range described(l.Faults()[:min(len(l.Faults()), streamFaults-s.told)]) {
		text := asciiJSON(jsonOf(told))
		if s.full = s.full || len(s.first)+len(text) > streamFaultsBytes; s.full {
			return
		}
		if s.told++; s.told > 1 {
			s.first = append(s.first, ',')
		}
		s.first = append(s.first, text...)
	}
}

func (s *skippedLines) tell(h http.Header) {
	h.Set(headerInvalid, strconv.FormatInt(s.count, 10))
	if s.told > 0 {
		h.Set(headerInvalidItems, "["+string(s.first)+"]")
	}
}
