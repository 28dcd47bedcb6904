package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
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
	token, err := secret.ReadToken(file)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	return token, nil
}
