//go:build !unix

package chores

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: the console sends Ctrl-C to cmd itself.
func ownGroup(*exec.Cmd) {}

// askToStop leaves it to the console's Ctrl-C.
func askToStop(*os.Process) {}
