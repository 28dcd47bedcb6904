//go:build linux

// Command liar is a job code process that the code has taken over: it sends the messages that the
// first line of the code names.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/jail"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

func say(m wire.Up) {
	if wire.Write(os.Stdout, m) != nil {
		os.Exit(0)
	}
}

func main() {
	if err := jail.Enter(jail.Limits{Memory: 128 << 20, CPU: time.Minute}); err != nil {
		panic(err)
	}
	var m wire.Down
	if err := wire.Read(os.Stdin, &m); err != nil {
		panic(err)
	}
	lie, _, _ := strings.Cut(strings.TrimPrefix(m.Start.Text, "# "), "\n")
	for {
		switch lie {
		case "records":
			say(wire.Up{Emit: json.RawMessage("1")})
		case "links":
			say(wire.Up{Follow: &wire.Follow{Base: m.Start.URI, Links: make([]string, 5000)}})
		case "page":
			say(wire.Up{End: &wire.End{Page: 3}})
		case "empty":
			say(wire.Up{})
		case "garbage":
			_, _ = os.Stdout.WriteString("\x00\x00\x00\x03abc")
		case "length":
			_, _ = os.Stdout.WriteString("\xff\xff\xff\xff")
		case "silent":
			fmt.Fprintln(os.Stderr, "bye")
			os.Exit(7)
		case "system":
			_, _ = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		default:
			fmt.Fprintln(os.Stderr, "no Landlock here")
			os.Exit(child.ExitJail)
		}
	}
}
