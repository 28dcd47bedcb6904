package configs

import (
	"cmp"
	"fmt"
)

// Exact is what a filter of the kind exact is made with.
type Exact struct {
	// Store is where the filter is kept: mysql, or "" for the store of the daemon.
	Store string `yaml:"store"`
	// Digest is how many bits of each item's hash are kept: 64 or 128. 0: 128. With 64 an item
	// takes half the memory, and a new one is mistaken for seen with a probability of n / 2^64
	// at n items; for the embedded store.
	Digest    uint64 `yaml:"digest"`
	Canonical `yaml:",inline"`
}

// Digests of the kind exact. The long one is the default, and 0 stands for it: so it is not
// written where older versions read.
const (
	ShortDigest = 64
	longDigest  = 128
)

// The stores that a daemon may have.
const (
	StoreEmbedded = "embedded"
	storeRedis    = "redis"
)

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
var exactKind = Kind{
	Name: "exact", Params: Exact{}, Lacks: "an exact filter has no capacity and no error rate, and its items do not expire",
	Parameters: append([]Parameter{{
		Key: "store", Want: `a text, such as "mysql"`, Values: []string{StoreMySQL}, Optional: true,
		Why:   "other filters are in the store of the daemon",
		Usage: "exact: `mysql` keeps the filter there instead of in the daemon's store",
	}, {
		Key: "digest", Want: "64 or 128", Like: "64", Optional: true, Unset: "128",
		Usage: "exact: `bits` of each item's hash that are kept: 64 or 128 (default 128)",
	}}, canonicalParameters...),
	Hashes: true, Forgets: true, Reserves: true, Commands: CommandsSet, MadeByCommands: true,
}

// KeptIn implements Placed.
func (e Exact) KeptIn() string { return e.Store }

// Digested are the parameters of filters that may keep a part of each hash.
type Digested interface{ DigestBits() int }

// DigestBits returns how many bits of the hash of an item the filter keeps, if it keeps hashes.
func (f Filter) DigestBits() int {
	if p, ok := f.Params.(Digested); ok {
		return p.DigestBits()
	}
	return longDigest
}

// DigestBits implements Digested.
func (e Exact) DigestBits() int { return int(cmp.Or(e.Digest, longDigest)) }

// Complete implements Params.
func (e Exact) Complete(d Defaults) Params {
	if e.Digest == longDigest {
		e.Digest = 0
	}
	e.Canonical = e.Canonical.complete(d)
	return e
}

// Faults implements Params.
func (e Exact) Faults() []Fault {
	all := e.Canonical.faults()
	if e.Store != "" && e.Store != StoreMySQL {
		all = append([]Fault{{"store", fmt.Sprintf("%q: want mysql, or nothing for the store of the daemon", e.Store)}}, all...)
	}
	switch {
	case e.Digest != 0 && e.Digest != ShortDigest && e.Digest != longDigest:
		all = append(all, Fault{"digest", fmt.Sprintf("%d: want %d or %d", e.Digest, ShortDigest, longDigest)})
	case e.Digest == ShortDigest && e.Store != "":
		all = append(all, Fault{"digest", fmt.Sprintf("%d: is for store: embedded: want %d with store: %s", e.Digest, longDigest, e.Store)})
	}
	return all
}
