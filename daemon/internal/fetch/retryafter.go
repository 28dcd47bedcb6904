package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest time that is accepted from a Retry-After.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter reads a Retry-After header, which is a number of seconds or a date. The result is
// between 0 and MaxRetryAfter; false: the header is missing or invalid.
func RetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" || len(value) > 100 {
		return 0, false
	}
	if digits := strings.TrimLeft(value, "0123456789"); digits == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(0, date.Sub(now)), MaxRetryAfter), true
}
