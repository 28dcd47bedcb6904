package program

// Counts are what the metrics of a daemon say at one moment.
type Counts struct {
	Ready   bool
	Version string
	// Began is when the process started, in seconds since 1970: the next four count from there.
	Began                        float64
	Requests, Errors, Items, New float64
	Filters                      []FilterCounts
}

// FilterCounts are those of one filter.
type FilterCounts struct {
	Name     string  `json:"name"`
	Items    float64 `json:"items"`
	Capacity float64 `json:"capacity,omitempty"` // 0: it has none
	FPR      float64 `json:"fpr_estimate,omitempty"`
}

// Full is the share of its capacity that a filter has taken; 0 without a capacity.
func (f FilterCounts) Full() float64 {
	if f.Capacity == 0 {
		return 0
	}
	return f.Items / f.Capacity
}
