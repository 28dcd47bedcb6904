package engine

import "time"

// Stored is a Spec as stores keep it in JSON, beside what is theirs.
type Stored struct {
	ID        int     `json:"id"`
	Name      string  `json:"name,omitempty"` // "": it stands elsewhere
	Kind      string  `json:"kind"`
	Capacity  uint64  `json:"capacity,omitempty"`
	ErrorRate float64 `json:"error_rate,omitempty"`
	OnFull    string  `json:"on_full,omitempty"`
	ExpireMS  int64   `json:"expire_ms,omitempty"`
}

// StoredSpec is s as it is kept.
func StoredSpec(s Spec) Stored {
	return Stored{s.ID, s.Name, s.Kind, s.Capacity, s.ErrorRate, s.OnFull, s.Expire.Milliseconds()}
}

// Spec is what is kept.
func (s Stored) Spec() Spec {
	return Spec{
		ID: s.ID, Name: s.Name, Kind: s.Kind, Capacity: s.Capacity, ErrorRate: s.ErrorRate, OnFull: s.OnFull,
		Expire: time.Duration(s.ExpireMS) * time.Millisecond,
	}
}
