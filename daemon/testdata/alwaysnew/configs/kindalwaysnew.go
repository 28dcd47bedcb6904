package configs

import "fmt"

// AlwaysNew has the parameters of a filter of the kind always_new.
type AlwaysNew struct {
	// Every says which items of a call are reported as seen all the same: 3 means every third
	// one. At most 1000. 0: none.
	Every uint64 `yaml:"every"`
	// Capacity is shown, and bounds nothing.
	Capacity uint64 `yaml:"capacity"`
}

func alwaysNewKind() Kind {
	return Kind{
		Name: "always_new", Params: AlwaysNew{}, Lacks: "it remembers nothing",
		Parameters: []Parameter{
			{Key: "every", Want: "a whole number, such as 3", Like: "3", Usage: "always_new: which `item` of a call is called seen all the same"},
			{Key: "capacity", Want: "a whole number of items, such as 10000000", Usage: "`items` that are expected"},
		},
	}
}

// Complete implements Params.
func (a AlwaysNew) Complete(Defaults) Params { return a }

// Faults implements Params.
func (a AlwaysNew) Faults() []Fault {
	if a.Every > 1000 {
		return []Fault{{"every", fmt.Sprintf("%d: want 0 to 1000", a.Every)}}
	}
	return nil
}
