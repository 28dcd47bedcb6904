package configs

import "fmt"

// Exact is what a filter of the kind exact is made with.
type Exact struct {
	// Store is where the filter is kept: mysql, or "" for the store of the daemon.
	Store     string `yaml:"store"`
	Canonical `yaml:",inline"`
}

// StoreMySQL is the store, in MariaDB, of filters that name it; mysql.addr says where.
const StoreMySQL = "mysql"

// Placed are the parameters of filters that may be kept elsewhere than in the daemon's store.
type Placed interface {
	// KeptIn returns the name of the other store; "": they are in the daemon's.
	KeptIn() string
}

// KeptIn returns the store that the filter names; "": that of the daemon.
func (f Filter) KeptIn() string {
	if p, ok := f.Params.(Placed); ok {
		return p.KeptIn()
	}
	return ""
}

// exactKind keeps the hash of each item until the item is forgotten.
func exactKind() Kind {
	return Kind{
		Name: "exact", Params: Exact{}, Lacks: "an exact filter has no capacity and no error rate, and its items do not expire",
		Parameters: append([]Parameter{{
			Key: "store", Want: `a text, such as "mysql"`, Values: []string{StoreMySQL}, Optional: true,
			Why:   "other filters are in the store of the daemon",
			Usage: "exact: `mysql` keeps the filter there instead of in the daemon's store",
		}}, canonicalParameters()...),
		Hashes: true, Forgets: true, Reserves: true, Commands: CommandsSet, MadeByCommands: true,
	}
}

// KeptIn implements Placed.
func (e Exact) KeptIn() string { return e.Store }

// Complete implements Params.
func (e Exact) Complete(d Defaults) Params {
	e.Canonical = e.Canonical.complete(d)
	return e
}

// Faults implements Params.
func (e Exact) Faults() []Fault {
	all := e.Canonical.faults()
	if e.Store != "" && e.Store != StoreMySQL {
		all = append([]Fault{{"store", fmt.Sprintf("%q: want mysql, or nothing for the store of the daemon", e.Store)}}, all...)
	}
	return all
}
