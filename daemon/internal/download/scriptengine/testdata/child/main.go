// Command child is the program that the engine runs in tests; it does the same as the real one.
package main

import (
	"os"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
)

func main() {
	if child.Asked(os.Args[1:]) {
		os.Exit(child.Main(os.Args[1:]))
	}
	os.Exit(1)
}
