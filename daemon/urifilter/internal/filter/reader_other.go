//go:build !unix

package filter

import "io"

// readerLeft is always false: on these systems only a failed write shows it.
func readerLeft(io.Writer) bool { return false }
