//go:build !unix

package chores

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: the console sends Ctrl-C to cmd itself.
func ownGroup(*exec.Cmd) {}

// askToStop does nothing: the console's Ctrl-C asks the process.
func askToStop(*os.Process) {}
