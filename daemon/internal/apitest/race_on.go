//go:build race

package apitest

// RaceEnabled makes the longest tests shorter.
const RaceEnabled = true
