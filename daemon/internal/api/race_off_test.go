//go:build !race

package api

// raceEnabled makes the longest tests shorter.
const raceEnabled = false
