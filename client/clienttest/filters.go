package clienttest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

func (s *Server) info(name string, f *filter) client.FilterInfo {
	i := client.FilterInfo{ID: f.id, Name: name, Kind: f.kind, Generation: uint64(f.generation)}
	switch f.kind {
	case "timing", "exact":
		i.Expire, i.Items = f.expire.Seconds(), uint64(len(f.seen))
	case "simhash":
		i.Distance, i.FeatureHash = 3, f.featureHash
		for _, ids := range f.texts {
			i.Items += uint64(len(ids))
		}
	default:
		i.Capacity, i.ErrorRate, i.OnFull, i.Bytes = f.capacity, f.errorRate, f.onFull, f.capacity*25/8
		i.ItemsEstimate, i.FillRatio, i.FPREstimate = uint64(len(f.seen)), 0.25, 0.00001
	}
	return i
}

func (s *Server) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []client.FilterInfo{}
	for name, f := range s.filters {
		all = append(all, s.info(name, f))
	}
	slices.SortFunc(all, func(a, b client.FilterInfo) int { return a.ID - b.ID })
	reply(w, http.StatusOK, client.FilterList{Filters: all})
}

func (s *Server) show(w http.ResponseWriter, name string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.lookup(w, name); f != nil {
		reply(w, status, s.info(name, f))
	}
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, name string) {
	var spec struct {
		ID        int     `json:"id"`
		Kind      string  `json:"kind"`
		Capacity  uint64  `json:"capacity"`
		ErrorRate float64 `json:"error_rate"`
		OnFull    string  `json:"on_full"`
		Expire    float64 `json:"expire"` // seconds

		Distance    uint64 `json:"distance"` // ignored: it is always 3
		FeatureHash string `json:"feature_hash"`
	}
	spec.Kind, spec.Capacity, spec.ErrorRate, spec.OnFull = "bloom", 10_000_000, 0.0001, "warn"
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		s.unexpected(w, "PUT %s: %v", name, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want := newFilter(spec.ID, spec.Capacity, spec.ErrorRate, spec.OnFull)
	want.featureHash = cmp.Or(spec.FeatureHash, "xxh3")
	want.kind, want.expire = spec.Kind, time.Duration(spec.Expire*float64(time.Second))
	status := http.StatusOK
	if have := s.filters[name]; have == nil {
		if want.id == 0 {
			want.id = s.highestID + 1
		}
		s.highestID = max(s.highestID, want.id)
		s.filters[name], status = want, http.StatusCreated
	} else if have.capacity != want.capacity || have.errorRate != want.errorRate || have.onFull != want.onFull ||
		have.kind != want.kind || have.expire != want.expire {
		Problem(w, http.StatusConflict, "filter_conflict", "filter "+name+": is there with other parameters", nil)
		return
	}
	reply(w, status, s.info(name, s.filters[name]))
}

func (s *Server) drop(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lookup(w, name) == nil {
		return
	}
	if r.URL.Query().Get("confirm") != name {
		Problem(w, http.StatusBadRequest, "confirm_required", "add ?confirm="+name, nil)
		return
	}
	delete(s.filters, name)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) clear(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.lookup(w, name)
	if f == nil {
		return
	}
	if r.URL.Query().Get("confirm") != name {
		Problem(w, http.StatusBadRequest, "confirm_required", "add ?confirm="+name, nil)
		return
	}
	f.seen, f.texts = map[key]time.Time{}, map[string][]string{}
	f.held, f.reservations = map[key]hold{}, map[string]map[key]string{}
	f.generation++
	reply(w, http.StatusOK, s.info(name, f))
}
