//go:build !windows

package report

import "os"

// ansi says whether a terminal understands ANSI sequences.
func ansi(*os.File) bool { return true }
