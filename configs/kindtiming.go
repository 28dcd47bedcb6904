package configs

import (
	"fmt"
	"time"
)

// MaxExpire is the longest time that an item can be asked to be remembered: ten years.
const MaxExpire = 87_600 * time.Hour

// Timing is what a filter of the kind timing is made with.
type Timing struct {
	// Expire is how long an item is a duplicate after a call has accepted it as new, unless
	// that call gives a time: 1ms to 87600h (ten years), in whole milliseconds. 0s: every
	// call must give one.
	Expire    time.Duration `yaml:"expire"`
	Canonical `yaml:",inline"`
}

// timingKind keeps a deadline for each item, and remembers the item exactly until then.
var timingKind = Kind{
	Name: "timing", Params: Timing{}, Lacks: "a timing filter is exact, and has no capacity",
	Parameters: append([]Parameter{{
		Key: "expire", Want: "a number of seconds, such as 86400", WantNone: ", want 0s",
		Usage: "timing: `time` for which items are remembered whose call names none, such as 90, 36h or 30d",
	}}, canonicalParameters...),
	Forgets: true, Reserves: true,
}

// ExpireAfter implements Expiring.
func (t Timing) ExpireAfter() time.Duration { return t.Expire }

// Complete implements Params.
func (t Timing) Complete(d Defaults) Params {
	t.Canonical = t.Canonical.complete(d)
	return t
}

// Faults implements Params.
func (t Timing) Faults() []Fault {
	all := t.Canonical.faults()
	if t.Expire < 0 || t.Expire > MaxExpire || t.Expire%time.Millisecond != 0 {
		all = append([]Fault{{"expire", fmt.Sprintf("%s: want 1ms to 87600h (ten years) in whole milliseconds, or 0s", t.Expire)}}, all...)
	}
	return all
}
