//go:build !unix

package httpserver

func openFiles() int { return 0 }
