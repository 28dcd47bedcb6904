package configs

import (
	"fmt"
	"time"
)

// MaxExpire is the longest time that an item can be asked to be remembered: ten years.
const MaxExpire = 87_600 * time.Hour

// timingKind has a deadline for each item, until which it is remembered, exactly.
func timingKind() Kind {
	return Kind{
		Name: "timing", Lacks: "a timing filter is exact, and has no capacity",
		Parameters: []Parameter{expireParameter()},
	}
}

// expireParameter is that of kinds whose items are remembered for a time.
func expireParameter() Parameter {
	return Parameter{
		Key:        "expire",
		Value:      func(f Filter) any { return f.Expire },
		Comparable: func(f Filter) any { return f.Expire.Seconds() },
		Check: func(f Filter) string {
			if f.Expire < 0 || f.Expire > MaxExpire || f.Expire%time.Millisecond != 0 {
				return fmt.Sprintf("%s: want 1ms to 87600h (ten years) in whole milliseconds, or 0s", f.Expire)
			}
			return ""
		},
		WantNone: ", want 0s",
	}
}
