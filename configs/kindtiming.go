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
	// that call says how long: 1ms to 87600h (ten years), in whole milliseconds. 0s: every
	// call must say.
	Expire time.Duration `yaml:"expire"`
}

// timingKind has a deadline for each item, until which it is remembered, exactly.
func timingKind() Kind {
	return Kind{
		Name: "timing", Params: Timing{}, Lacks: "a timing filter is exact, and has no capacity",
		Parameters: []Parameter{{
			Key: "expire", Want: "a number of seconds, such as 86400", WantNone: ", want 0s",
			Usage: "timing: `time` for which items are remembered whose call names none, such as 90, 36h or 30d",
		}},
	}
}

// ExpireAfter implements Expiring.
func (t Timing) ExpireAfter() time.Duration { return t.Expire }

// Complete implements Params.
func (t Timing) Complete(Defaults) Params { return t }

// Faults implements Params.
func (t Timing) Faults() []Fault {
	if t.Expire < 0 || t.Expire > MaxExpire || t.Expire%time.Millisecond != 0 {
		return []Fault{{"expire", fmt.Sprintf("%s: want 1ms to 87600h (ten years) in whole milliseconds, or 0s", t.Expire)}}
	}
	return nil
}
