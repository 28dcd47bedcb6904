// Command child is what the engine runs in tests, as the program does.
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
