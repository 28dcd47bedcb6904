package provision

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/settings"
)

// tokensFile returns the path of the operator's tokens for a program on this machine: as the
// inventory says, else tokens.yaml beside it, for the filter, or tokens.SECTION.yaml.
func tokensFile(inv *inventory.Inventory, dir string, p program.Program) string {
	own, _ := inv.Own(p.Section)
	if own.TokensFile != "" {
		return own.TokensFile
	}
	name := "tokens." + p.Section + ".yaml"
	if p.Section == inventory.SectionFilter {
		name = "tokens.yaml"
	}
	if inv.Path() != "" {
		return filepath.Join(filepath.Dir(inv.Path()), name)
	}
	return filepath.Join(dir, "configs", name)
}

// readTokens reads those files; one may be missing unless the inventory names it.
func (t *Toolkit) readTokens() error {
	t.tokens = map[string]configs.Tokens{}
	for _, p := range t.o.Programs {
		if p.Section == "" {
			continue
		}
		tokens, warnings, err := configs.LoadTokensOf(tokensFile(t.inventory, t.o.Dir, p), p.TokenScopes)
		if errors.Is(err, os.ErrNotExist) {
			own, prefix := t.inventory.Own(p.Section)
			if own.TokensFile == "" {
				continue
			}
			return fmt.Errorf("%stokens_file: %w\nhint: %s makes it", prefix, err, rollout.TokenCall(p))
		}
		for _, w := range warnings {
			fmt.Fprintln(t.errs, "warning: "+w)
		}
		if err != nil {
			return err
		}
		t.tokens[p.Name] = tokens
	}
	return nil
}

// MakeToken adds a token to the tokens file of Options.Program on this machine and shows it, once.
// Scopes are comma-separated; "": the default of most callers.
func MakeToken(o Options, name, scopes string, replace bool) error {
	o.complete()
	inv, _, err := inventory.Open(o.source())
	if err != nil {
		return fleet.Usage(err)
	}
	p, err := o.chosen()
	if err != nil {
		return fleet.Usage(err)
	}
	scopes = cmp.Or(scopes, p.Caller)
	path := tokensFile(inv, o.Dir, p)
	var list []string
	for s := range strings.SplitSeq(scopes, ",") {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	token, err := settings.MakeToken(path, name, list, p.TokenScopes, replace)
	if err != nil {
		return fleet.Usage(err)
	}
	shown := path
	if rel, err := filepath.Rel(o.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		shown = filepath.ToSlash(rel)
	}
	fmt.Fprintln(o.Stdout, token)
	errs := terminal.Protect(o.Stderr)
	fmt.Fprintf(errs, "That is the token of %s, for %s. It is shown this once: %s holds its digest.\n", name, strings.Join(list, ", "), shown)
	fmt.Fprintln(errs, "go tool mage settings:push makes the daemons know it; callers present it as Authorization: Bearer TOKEN.")
	return nil
}
