//go:build !race

package apitest

// RaceEnabled reports whether the race detector is on. The longest tests are shorter then.
const RaceEnabled = false
