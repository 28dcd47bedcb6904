package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// CLI is a program's command line on a host, for its daemon on the same host.
type CLI struct {
	Program   systemd.Program
	Binary    string // path of the program
	TokenFile string // path of the file with the host's own token; it may be missing
	User      string // of the service, who runs it
}

// Command runs the program with words, which are shell text. The token goes from its file into an environment variable
// of the program: no argument contains it.
func (c CLI) Command(words string) host.Command {
	// The working directory must be readable for the user, whoever logged in.
	script := fmt.Sprintf("cd /\nif [ -r %s ]; then %[2]s=$(cat %[1]s); export %[2]s; fi\nexec %[3]s %[4]s",
		host.Quote(c.TokenFile), c.Program.Env("TOKEN"), host.Quote(c.Binary), words)
	return host.Command{Script: script, User: c.User}
}

// Said returns the message with which the program has failed, "" if it is none of its own.
func (c CLI) Said(err error) string {
	var failed *host.CommandError
	if !errors.As(err, &failed) {
		return ""
	}
	// Lines before the error only report progress.
	_, said, _ := strings.Cut("\n"+strings.TrimSpace(failed.Output.Stderr), "\n"+c.Program.Name+": ")
	return said
}
