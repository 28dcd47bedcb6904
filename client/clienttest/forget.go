package clienttest

import (
	"net/http"

	"github.com/cr-clawer/urifilter/client"
)

// forget answers POST /api/v1/forget.
func (s *Server) forget(w http.ResponseWriter, l *list, f *filter) {
	if f.refusesItems(w) {
		return
	}
	if f.kind == "bloom" {
		Problem(w, http.StatusUnprocessableEntity, "forget_not_supported", "the filter is of the kind bloom", nil)
		return
	}
	result := client.ForgetResult{InvalidItems: l.skipped}
	for _, k := range l.keys {
		delete(f.held, k)
		if k != (key{}) && f.has(k, s.now()) {
			result.Forgotten++
			delete(f.seen, k)
		}
	}
	reply(w, http.StatusOK, result)
}
