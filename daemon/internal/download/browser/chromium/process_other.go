//go:build !linux

package chromium

import (
	"os"
	"os/exec"
)

func group(*exec.Cmd) {}

func killGroup(p *os.Process) { _ = p.Kill() } // it may have ended
