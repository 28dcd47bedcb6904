package configs

import "fmt"

// MaxDistance is the largest distance of documents that a filter can be made for.
const MaxDistance = 7

// Hashes of the features of texts.
const (
	FeatureXXH3 = "xxh3"
	FeatureMD5  = "md5"
)

// Simhash is what a filter of the kind simhash is made with.
type Simhash struct {
	// Distance is how many of 64 bits may differ in the fingerprints of two texts that are near
	// each other: 1 to 7, default 3. A call may ask for less.
	Distance uint64 `yaml:"distance"`
	// FeatureHash is what the parts of a text are hashed with: xxh3, the default, or md5, which
	// gives the fingerprints of the Python module simhash.
	FeatureHash string `yaml:"feature_hash"`
}

// simhashKind keeps the fingerprint of each text, and finds the texts that are near one.
var simhashKind = Kind{
	Name: "simhash", Params: Simhash{}, Lacks: "a simhash filter keeps fingerprints of texts, which do not expire, and has no capacity",
	Parameters: []Parameter{
		{
			Key: "distance", Want: "a whole number, such as 3", Like: "3", WantNone: ", want 0",
			Usage: "simhash: in how many of 64 `bits` the fingerprints of near texts may differ, 1 to 7 (default 3)",
		},
		{
			Key: "feature_hash", Want: `"` + FeatureXXH3 + `" or "` + FeatureMD5 + `"`, Values: []string{FeatureXXH3, FeatureMD5},
			Usage: "simhash: `hash` of the parts of texts: xxh3, or md5, which gives the fingerprints of the Python module (default xxh3)",
		},
	},
	Local: true, Texts: true,
}

// Complete implements Params.
func (s Simhash) Complete(Defaults) Params {
	if s.Distance == 0 {
		s.Distance = 3
	}
	if s.FeatureHash == "" {
		s.FeatureHash = FeatureXXH3
	}
	return s
}

// Faults implements Params.
func (s Simhash) Faults() (all []Fault) {
	if s.Distance < 1 || s.Distance > MaxDistance {
		all = append(all, Fault{"distance", fmt.Sprintf("%d: want 1 to %d", s.Distance, MaxDistance)})
	}
	if s.FeatureHash != FeatureXXH3 && s.FeatureHash != FeatureMD5 {
		all = append(all, Fault{"feature_hash", fmt.Sprintf("%q: want %s or %s", s.FeatureHash, FeatureXXH3, FeatureMD5)})
	}
	return all
}
