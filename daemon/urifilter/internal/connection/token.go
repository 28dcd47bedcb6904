package connection

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// Credential holds the flags that give a command the token for a daemon.
type Credential struct {
	token, file string
}

// Register adds the flags to a command.
func (c *Credential) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.token, "token", "", "access `token`; in the environment other users cannot see it (env URIFILTER_TOKEN)")
	f.StringVar(&c.file, "token-file", "", "`file` that holds the access token alone (env URIFILTER_TOKEN_FILE)")
}

// Read returns the token, "" if none is given. Flags override the environment.
func (c *Credential) Read(cmd *cobra.Command) (string, error) {
	given := cmd.Flags().Changed
	if given("token") && given("token-file") {
		return "", command.UsageError{Err: errors.New("--token and --token-file: want one of them")}
	}
	file := c.file
	switch env := os.Getenv("URIFILTER_TOKEN"); {
	case given("token"):
		return c.token, nil
	case given("token-file"):
	case env != "":
		return env, nil
	default:
		file = os.Getenv("URIFILTER_TOKEN_FILE")
	}
	if file == "" {
		return "", nil
	}
	return readToken(file)
}

// largestToken bounds the length of a token: no daemon reads a longer header.
const largestToken = 4096

func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(token) > largestToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token file %s: want one token and nothing else", file)
	}
	return token, nil
}
