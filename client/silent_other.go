//go:build !unix

package client

import "net"

// silent cannot be told here without taking what may come.
func silent(net.Conn) bool { return true }
