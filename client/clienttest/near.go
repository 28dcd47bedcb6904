package clienttest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/cr-clawer/urifilter/client"
)

// near answers POST /api/v1/near. Two texts are near each other, at a distance of 0, if their
// letters and digits are the same, and not near otherwise. The first text of an id is remembered.
func (s *Server) near(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Type      json.RawMessage   `json:"filter_typeid"`
		Documents []client.Document `json:"documents"`
		Distance  *int              `json:"distance"`
		Limit     *int              `json:"limit"`
		Remember  *bool             `json:"remember"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil || req.Documents == nil || len(req.Type) == 0 {
		s.unexpected(w, "%s %s: %v", r.Method, r.URL, err)
		return
	}
	ref := string(req.Type)
	if req.Type[0] == '"' {
		json.Unmarshal(req.Type, &ref)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.lookup(w, ref)
	switch {
	case f == nil:
		return
	case f.kind != "simhash":
		Problem(w, http.StatusUnprocessableEntity, "near_not_supported", "the filter is of the kind "+f.kind, nil)
		return
	case req.Distance != nil && (*req.Distance < 0 || *req.Distance > 3):
		Problem(w, http.StatusUnprocessableEntity, "distance_invalid", "want 0 to 3", nil)
		return
	}
	limit := 10
	if req.Limit != nil {
		limit = *req.Limit
	}
	if limit < 1 || limit > 100 {
		Problem(w, http.StatusUnprocessableEntity, "limit_invalid", "want 1 to 100", nil)
		return
	}
	prints, ids := make([]string, len(req.Documents)), map[string]bool{}
	for i, d := range req.Documents {
		text := strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsNumber(r) {
				return unicode.ToLower(r)
			}
			return -1
		}, d.Text)
		code := ""
		switch {
		case d.ID == "" || len(d.ID) > 1024:
			code = "id_invalid"
		case ids[d.ID]:
			code = "duplicate_id"
		case len([]rune(text)) < 3:
			code = "text_too_short"
		}
		if code != "" {
			Problem(w, http.StatusBadRequest, code, code, map[string]any{"index": i})
			return
		}
		ids[d.ID] = true
		h := fnv.New64a()
		h.Write([]byte(text))
		prints[i] = fmt.Sprintf("%016x", h.Sum64())
	}
	result := client.NearResult{Documents: []client.Compared{}}
	for i, d := range req.Documents {
		c := client.Compared{ID: d.ID, Fingerprint: prints[i], New: true, Near: []client.NearDocument{}}
		mine := slices.Index(f.texts[prints[i]], d.ID)
		for at, id := range f.texts[prints[i]] {
			if id != d.ID {
				c.New = c.New && mine >= 0 && at > mine
				c.Near = append(c.Near, client.NearDocument{ID: id})
			}
		}
		if c.More = len(c.Near) > limit; c.More {
			c.Near = c.Near[:limit] // the earliest ones
		}
		slices.SortFunc(c.Near, func(a, b client.NearDocument) int { return strings.Compare(a.ID, b.ID) })
		result.Documents = append(result.Documents, c)
		if mine < 0 && (req.Remember == nil || *req.Remember) {
			f.texts[prints[i]] = append(f.texts[prints[i]], d.ID)
		}
	}
	reply(w, http.StatusOK, result)
}

// refusesItems answers the call, and returns true, if the filter takes documents.
func (f *filter) refusesItems(w http.ResponseWriter) bool {
	if f.kind == "simhash" {
		Problem(w, http.StatusUnprocessableEntity, "items_not_supported", "the filter is of the kind simhash", nil)
		return true
	}
	return false
}
