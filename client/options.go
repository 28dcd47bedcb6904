package client

import (
	"strconv"
	"time"
)

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	expires bool
	expire  time.Duration
	skips   bool
	skipped *InvalidItems // nil: not reported

	leases      bool
	lease       time.Duration
	reservation *string // nil: none
}

// Expire says for how long the items that this call finds new are duplicates; it is for
// filters of the kind timing, and overrides the time that the filter was made with. A
// duplicate keeps its time: a hit does not renew it. The daemon refuses zero, negative
// times and times above ten years, with an [*Error] of status 422.
func Expire(d time.Duration) CallOption {
	return func(o *callOptions) { o.expires, o.expire = true, d }
}

// SkipInvalid makes the daemon skip invalid items (empty, not Unicode, too large; in a stream
// of NDJSON also lines that are not JSON), for which it otherwise refuses the call, or ends
// the stream. Skipped items are neither new nor duplicates; [Client.Check] returns false for
// them. After a successful call, skipped contains their number, and describes the first ones;
// it may be nil.
func SkipInvalid(skipped *InvalidItems) CallOption {
	return func(o *callOptions) { o.skips, o.skipped = true, skipped }
}

// tell reports what was skipped to the caller.
func (o callOptions) tell(skipped InvalidItems) {
	if o.skipped != nil {
		*o.skipped = skipped
	}
}

// seconds returns the time in the form that the daemon reads.
func (o callOptions) seconds() string {
	return strconv.FormatFloat(o.expire.Seconds(), 'f', -1, 64)
}

func collect(options []CallOption) (all callOptions) {
	for _, option := range options {
		option(&all)
	}
	return all
}
