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
	skipped *InvalidItems // nil: nobody is told

	leases      bool
	lease       time.Duration
	reservation *string // nil: none
}

// Expire says for how long the items that this call finds new are duplicates; it is for
// filters of the kind timing, and overrides the time that the filter was made with. An
// item that is a duplicate keeps the time that it has: a hit does not renew it. The daemon
// refuses zero, negative times and those above ten years, with [*Error] and status 422.
func Expire(d time.Duration) CallOption {
	return func(o *callOptions) { o.expires, o.expire = true, d }
}

// SkipInvalid has the daemon skip items that are invalid (empty, no Unicode, too large; in a
// stream of NDJSON also lines that are no JSON), where it otherwise refuses the call, or ends
// the stream. Skipped items are neither new nor duplicates; [Client.Check] says false of them.
// When the call has succeeded, skipped tells how many there were, and describes the first;
// it may be nil.
func SkipInvalid(skipped *InvalidItems) CallOption {
	return func(o *callOptions) { o.skips, o.skipped = true, skipped }
}

// tell hands out what was skipped.
func (o callOptions) tell(skipped InvalidItems) {
	if o.skipped != nil {
		*o.skipped = skipped
	}
}

// seconds is the time as the daemon reads it.
func (o callOptions) seconds() string {
	return strconv.FormatFloat(o.expire.Seconds(), 'f', -1, 64)
}

func collect(options []CallOption) (all callOptions) {
	for _, option := range options {
		option(&all)
	}
	return all
}
