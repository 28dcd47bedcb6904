package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "token",
		Short:                 "Make access tokens",
		Long:                  "Make the tokens that callers present to a daemon. It knows them by a file of their\ndigests, which auth.tokens_file names.",
		Example:               "  urifilter token new --name crawler --scopes read,filter >> tokens.yaml",
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newTokenNew())
	return cmd
}

func newTokenNew() *cobra.Command {
	var name string
	var scopes []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a token, and the lines of the tokens file for it",
		Long: `Make a token that nobody can guess. The standard output has the lines to add to the
daemon's tokens file (auth.tokens_file), with the token's digest alone; the standard
error has the token itself, which is shown this once and kept nowhere. It calls no
daemon; one that runs knows the token after a reload (SIGHUP).`,
		Example: `  # add it to the file, and have the daemon read that
  urifilter token new --name crawler >> /etc/urifilter/tokens.yaml
  systemctl reload urifilter

  # for a program: all of it as JSON
  urifilter token new --name operator --scopes admin --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkToken(name, scopes); err != nil {
				return command.UsageError{Err: err}
			}
			secret, entry := configs.NewToken(name, scopes)
			if asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), map[string]any{"name": name, "token": secret, "digest": entry.Digest(), "scopes": scopes})
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "- name: %q\n  token: %s\n  scopes: [%s]\n", name, entry.Digest(), strings.Join(scopes, ", ")); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "the token of %s, shown this once:\n%s\n", name, secret)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "crawler", "`name` of its bearer in logs; a file has each name once")
	f.StringSliceVar(&scopes, "scopes", []string{"read", "filter"}, "what it allows, of read, filter, forget and admin, with commas between")
	command.JSONFlag(cmd, &asJSON)
	if err := cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(configs.Scopes(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // --scopes is defined above
	}
	return cmd
}

func checkToken(name string, scopes []string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("--name: want printable characters")
	}
	if len(scopes) == 0 {
		return fmt.Errorf("--scopes: want some of %s", strings.Join(configs.Scopes(), ", "))
	}
	for _, scope := range scopes {
		if !slices.Contains(configs.Scopes(), scope) {
			return fmt.Errorf("--scopes: %q: want %s", scope, strings.Join(configs.Scopes(), " or "))
		}
	}
	return nil
}
