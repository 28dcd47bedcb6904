package configs

import (
	"fmt"
	"time"
)

// AlwaysNew has the parameters of a filter of the kind always_new.
type AlwaysNew struct {
	// Every says which items of a call are reported as seen all the same: 3 means every third
	// one. At most 1000. 0: none.
	Every uint64 `yaml:"every"`
	// Capacity is shown, and bounds nothing.
	Capacity uint64 `yaml:"capacity"`
	// Pause is shown, and nothing waits for it. At most an hour.
	Pause time.Duration `yaml:"pause"`
}

var alwaysNewKind = Kind{
	Name: "always_new", Params: AlwaysNew{}, Lacks: "it remembers nothing",
	Parameters: []Parameter{
		{Key: "every", Want: "a whole number, such as 3", Like: "3", Usage: "always_new: which `item` of a call is called seen all the same"},
		{Key: "capacity", Want: "a whole number of items, such as 10000000", Usage: "`items` that are expected"},
		{Key: "pause", Want: "a number of seconds, such as 3", Like: "3", Optional: true, Usage: "always_new: a `time` that is shown"},
	},
}

// Complete implements Params.
func (a AlwaysNew) Complete(Defaults) Params { return a }

// Faults implements Params.
func (a AlwaysNew) Faults() []Fault {
	if a.Every > 1000 {
		return []Fault{{"every", fmt.Sprintf("%d: want 0 to 1000", a.Every)}}
	}
	if a.Pause > time.Hour {
		return []Fault{{"pause", fmt.Sprintf("%s: want 0s to 1h", a.Pause)}}
	}
	return nil
}
