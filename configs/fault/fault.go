// Package fault collects what is wrong with settings, each fault with its key first, and words
// the faults that many settings can have. What a setting may be is for its owner to say.
package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// List is what is wrong, in the order in which it was found.
type List []error

// Add adds a fault of a key. The format may wrap an error with %w.
func (l *List) Add(key, format string, args ...any) {
	*l = append(*l, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
}

// Text adds a text, which says what is wrong with a setting, unless it is empty.
func (l *List) Text(key, text string) {
	if text != "" {
		l.Add(key, "%s", text)
	}
}

// OneOf adds a fault unless value is one of allowed.
func (l *List) OneOf(key, value string, allowed ...string) {
	l.Text(key, OneOf(value, allowed...))
}

// AtLeast adds a fault if value is less than least.
func (l *List) AtLeast(key string, value, least time.Duration) {
	if value < least {
		l.Add(key, "%s: want %s or more", value, least)
	}
}

// Between adds a fault unless value is from one number to another.
func (l *List) Between(key string, value, from, to int) {
	if value < from || value > to {
		l.Add(key, "%d: want %d to %d", value, from, to)
	}
}

// OneOf says what is wrong with value, which must be one of allowed; "": nothing.
func OneOf(value string, allowed ...string) string {
	if slices.Contains(allowed, value) {
		return ""
	}
	return fmt.Sprintf("%q: want %s", value, strings.Join(allowed, " or "))
}
