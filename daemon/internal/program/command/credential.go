package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// FlagOrEnv returns the value of the flag if it was given, else that of the variable, else the default.
func FlagOrEnv(cmd *cobra.Command, flag, value, variable string) string {
	if env := os.Getenv(variable); env != "" && !cmd.Flags().Changed(flag) {
		return env
	}
	return value
}

// Credential holds the flags that give a command the token for a program that it calls.
type Credential struct {
	token, file, prefix string
}

// Register adds the flags to a command. The prefix is that of the variables that stand for them.
func (c *Credential) Register(cmd *cobra.Command, prefix string) {
	c.prefix = prefix
	f := cmd.Flags()
	f.StringVar(&c.token, "token", "", "access `token`; in the environment other users cannot see it (env "+prefix+"_TOKEN)")
	f.StringVar(&c.file, "token-file", "", "`file` that holds the access token alone (env "+prefix+"_TOKEN_FILE)")
}

// Read returns the token, "" if none is given. Flags override the environment.
func (c *Credential) Read(cmd *cobra.Command) (string, error) {
	given := cmd.Flags().Changed
	if given("token") && given("token-file") {
		return "", UsageError{Err: errors.New("--token and --token-file: want one of them")}
	}
	file := c.file
	switch env := os.Getenv(c.prefix + "_TOKEN"); {
	case given("token"):
		return c.token, nil
	case given("token-file"):
	case env != "":
		return env, nil
	default:
		file = os.Getenv(c.prefix + "_TOKEN_FILE")
	}
	if file == "" {
		return "", nil
	}
	return readToken(file)
}

// largestToken bounds the length of a token: no program reads a longer header.
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
