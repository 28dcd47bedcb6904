//go:build !linux

package mongotest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
