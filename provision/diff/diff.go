// Package diff shows people what will change in a text, in the form of `diff -u`, and hides secrets
// in its output. It applies no diff and reads no file.
package diff

import (
	"github.com/aymanbagabas/go-udiff"

	"github.com/cr-clawer/urifilter/provision/secret"
)

// Unified compares two texts; "" when they are equal. A missing text is "".
func Unified(name, old, new string) string {
	return udiff.Unified(name, name, old, new)
}

// Masked is Unified for texts with secrets: their values are hidden as by [secret.Hide], but it
// shows that a value changes.
func Masked(name, old, new string, keys ...string) string {
	if old == new {
		return ""
	}
	old, new = secret.HidePair(old, new, keys...)
	return Unified(name, old, new)
}
