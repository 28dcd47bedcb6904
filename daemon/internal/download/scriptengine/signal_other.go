//go:build !unix

package scriptengine

import "os"

const forbiddenCall = "bad system call"

func bySignal(*os.ProcessState) string { return "" }
