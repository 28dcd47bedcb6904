package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
)

// Tokens are those that callers present to a program.
type Tokens struct {
	Program       string
	Scopes, Usual []string // all scopes, and those of most callers
	Other         string   // a program whose tokens have other scopes
	OtherScopes   []string // those
}

// NewToken makes the command token, which makes tokens.
func NewToken(t Tokens) *cobra.Command {
	usual := strings.Join(t.Usual, ",")
	cmd := &cobra.Command{
		Use:                   "token",
		Short:                 "Make access tokens",
		Long:                  "Make the tokens that callers present to " + t.Program + ". It knows them by a file of their\ndigests, which auth.tokens_file names.",
		Example:               "  " + t.Program + " token new --name crawler --scopes " + usual + " >> tokens.yaml",
		DisableFlagsInUseLine: true,
	}
	Parent(cmd)
	cmd.AddCommand(t.command())
	return cmd
}

func (t Tokens) command() *cobra.Command {
	var name string
	var scopes []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a token, and the lines of the tokens file for it",
		Long: `Make a token that nobody can guess. The standard output has the lines to add to the
tokens file of ` + t.Program + ` (auth.tokens_file), with the token's digest alone; the standard
error has the token itself, which is shown this once and kept nowhere. It calls nobody;
a process that runs knows the token after a reload (SIGHUP).`,
		Example: `  # add it to the file, and have the daemon read that
  ` + t.Program + ` token new --name crawler >> /etc/` + t.Program + `/tokens.yaml
  systemctl reload ` + t.Program + `

  # for a program: all of it as JSON
  ` + t.Program + ` token new --name operator --scopes admin --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(name, scopes); err != nil {
				return UsageError{Err: err}
			}
			secret, entry := configs.NewToken(name, scopes)
			if asJSON {
				return WriteJSON(cmd.OutOrStdout(), map[string]any{"name": name, "token": secret, "digest": entry.Digest(), "scopes": scopes})
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
	f.StringSliceVar(&scopes, "scopes", t.Usual, "what it allows, of "+strings.Join(t.Scopes, ", ")+", with commas between")
	JSONFlag(cmd, &asJSON)
	if err := cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(t.Scopes, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // --scopes is defined above
	}
	return cmd
}

func (t Tokens) check(name string, scopes []string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("--name: want printable characters")
	}
	if len(scopes) == 0 {
		return fmt.Errorf("--scopes: want some of %s", strings.Join(t.Scopes, ", "))
	}
	for _, scope := range scopes {
		if slices.Contains(t.Scopes, scope) {
			continue
		}
		hint := ""
		if slices.Contains(t.OtherScopes, scope) {
			hint = fmt.Sprintf("%s`%s token new` makes tokens for %s, whose scopes and file are its own", HintMark, t.Other, t.Other)
		}
		return fmt.Errorf("--scopes: %q: want %s%s", scope, strings.Join(t.Scopes, " or "), hint)
	}
	return nil
}
