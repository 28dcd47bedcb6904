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
}

// Expire says for how long the items that this call finds new are duplicates; it is for
// filters of the kind timing, and overrides the time that the filter was made with. An
// item that is a duplicate keeps the time that it has: a hit does not renew it. The daemon
// refuses zero, negative times and those above ten years, with [*Error] and status 422.
func Expire(d time.Duration) CallOption {
	return func(o *callOptions) { o.expires, o.expire = true, d }
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
