package configs

import (
	"cmp"
	"fmt"

	"github.com/cr-clawer/urifilter/configs/fault"
)

// Scaling is what a filter of the kind scaling is made with.
type Scaling struct {
	// Capacity is the number of items of the first layer. 0: uri_num_scale.
	Capacity uint64 `yaml:"capacity"`
	// ErrorRate is the share of new items that are mistaken for seen, 0.000001 to 0.5. 0:
	// accept_error_rate.
	ErrorRate float64 `yaml:"error_rate"`
	// Expansion is how many times as large each further layer is, 1 to 32768. 0: 2.
	Expansion uint64 `yaml:"expansion"`
	// OnFull is what happens beyond the capacity: grow (make a further layer) or reject. "": grow.
	OnFull    string `yaml:"on_full"`
	Canonical `yaml:",inline"`
}

// maxExpansion is that of RedisBloom.
const maxExpansion = 32768

// scalingKind is a Bloom filter of RedisBloom, bit for bit.
var scalingKind = Kind{
	Name: "scaling", Params: Scaling{}, Lacks: "items of a scaling filter do not expire",
	Parameters: append([]Parameter{
		capacityParameter, errorRateParameter,
		{
			Key: "expansion", Want: "a whole number from 1 to 32768, such as 2", Like: "2", Optional: true,
			Usage: "scaling: how many `times` as large each further layer is",
		},
		onFullParameter,
	}, canonicalParameters...),
	Local: true, Commands: CommandsBF, MadeByCommands: true,
}

// NewScaling returns the parameters of a filter; fixed says that it does not grow.
func NewScaling(capacity uint64, errorRate float64, expansion uint64, fixed bool) Scaling {
	s := Scaling{Capacity: capacity, ErrorRate: errorRate, Expansion: max(1, expansion), OnFull: grow}
	if fixed {
		s.OnFull = reject
	}
	return s
}

// Bound implements Bounded.
func (s Scaling) Bound() Bound { return Bound{s.Capacity, s.ErrorRate, s.OnFull} }

// Complete implements Params.
func (s Scaling) Complete(d Defaults) Params {
	s.Capacity, s.ErrorRate = cmp.Or(s.Capacity, d.Capacity), cmp.Or(s.ErrorRate, d.ErrorRate)
	s.Expansion, s.OnFull = cmp.Or(s.Expansion, 2), cmp.Or(s.OnFull, grow)
	s.Canonical = s.Canonical.complete(d)
	return s
}

// Faults implements Params.
func (s Scaling) Faults() []Fault {
	wrong := ""
	if s.Expansion < 1 || s.Expansion > maxExpansion {
		wrong = fmt.Sprintf("%d: want 1 to %d", s.Expansion, maxExpansion)
	}
	var all []Fault
	for _, f := range []Fault{
		{"capacity", checkCapacity(s.Capacity)}, {"error_rate", checkErrorRate(s.ErrorRate)}, {"expansion", wrong},
		{"on_full", fault.OneOf(s.OnFull, grow, reject)},
	} {
		if f.Text != "" {
			all = append(all, f)
		}
	}
	return append(all, s.Canonical.faults()...)
}
