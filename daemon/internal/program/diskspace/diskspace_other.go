//go:build !linux

package diskspace

// Of is not known here.
func Of(string) (free, size uint64, ok bool) { return 0, 0, false }
