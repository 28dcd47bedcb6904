package configs

// Exact is what a filter of the kind exact is made with.
type Exact struct {
	Canonical `yaml:",inline"`
}

// exactKind has the hash of each item, until the item is forgotten.
func exactKind() Kind {
	return Kind{
		Name: "exact", Params: Exact{}, Lacks: "an exact filter has no capacity and no error rate, and its items do not expire",
		Parameters: canonicalParameters(), Local: true,
	}
}

// Complete implements Params.
func (e Exact) Complete(d Defaults) Params {
	e.Canonical = e.Canonical.complete(d)
	return e
}

// Faults implements Params.
func (e Exact) Faults() []Fault { return e.Canonical.faults() }
