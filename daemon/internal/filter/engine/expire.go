package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/cr-clawer/urifilter/configs"
)

// Expire converts seconds to a time in whole milliseconds, rounded up. An error says what
// seconds may be.
func Expire(seconds float64) (time.Duration, error) {
	d, ok := WholeMilliseconds(seconds, configs.MaxExpire)
	if !ok {
		return 0, fmt.Errorf("expire: %.15g s: want more than 0, and at most %.0f (ten years)", seconds, configs.MaxExpire.Seconds())
	}
	return d, nil
}

// WholeMilliseconds converts seconds to a time in whole milliseconds, which stores can keep, rounded
// up; not ok: they are not more than 0, or the time would be longer than most.
func WholeMilliseconds(seconds float64, limit time.Duration) (d time.Duration, ok bool) {
	// Ignore a thousandth of a millisecond: for 0.1 or 1.001 it is a rounding error of the double.
	ms := math.Ceil(seconds*1000 - 0.001)
	if !(seconds > 0) || ms > float64(limit/time.Millisecond) {
		return 0, false
	}
	return time.Duration(max(1, ms)) * time.Millisecond, true
}
