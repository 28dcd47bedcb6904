//go:build !linux

package testserver

import "syscall"

func DieWithParent() *syscall.SysProcAttr { return nil }
