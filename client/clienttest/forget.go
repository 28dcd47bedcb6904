package clienttest

import (
	"encoding/json"
	"net/http"

	"github.com/cr-clawer/urifilter/client"
)

// forget answers POST /api/v1/forget.
func (s *Server) forget(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Type json.RawMessage   `json:"filter_typeid"`
		List []json.RawMessage `json:"uri_list"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil || req.List == nil || len(req.Type) == 0 {
		s.unexpected(w, "%s %s: %v", r.Method, r.URL, err)
		return
	}
	ref := string(req.Type)
	if req.Type[0] == '"' {
		json.Unmarshal(req.Type, &ref)
	}
	keys := make([]key, len(req.List))
	for i, raw := range req.List {
		k, err := itemKey(raw)
		if err != nil {
			Problem(w, http.StatusBadRequest, err.Error(), err.Error(), map[string]any{"index": i})
			return
		}
		keys[i] = k
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.lookup(w, ref)
	if f == nil {
		return
	}
	if f.kind == "bloom" {
		Problem(w, http.StatusUnprocessableEntity, "forget_not_supported", "the filter is of the kind bloom", nil)
		return
	}
	var result client.ForgetResult
	for _, k := range keys {
		if f.has(k, s.now()) {
			result.Forgotten++
			delete(f.seen, k)
		}
	}
	reply(w, http.StatusOK, result)
}
