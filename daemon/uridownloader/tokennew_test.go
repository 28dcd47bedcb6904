package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
)

// The output of the command can be appended to a tokens file unchanged, and the master then knows the token.
func TestTokenNewMakesAnEntry(t *testing.T) {
	for want, args := range map[string]string{"submit": "", "read": "--scopes read", "admin": "--scopes admin"} {
		var out, errOut strings.Builder
		code := run(t.Context(), append([]string{"token", "new"}, strings.Fields(args)...), strings.NewReader(""), &out, &errOut)
		lines := strings.Split(strings.TrimSpace(errOut.String()), "\n")
		if code != 0 || len(lines) != 2 {
			t.Fatalf("%q: %d, %q, %q", args, code, &out, &errOut)
		}
		tokens, _, err := configs.LoadTokensOf(write(t, t.TempDir(), "tokens.yaml", out.String()), settings.Scopes())
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tokens.Match(lines[1]); !ok || !slices.Equal(got.Scopes, []string{want}) {
			t.Errorf("%q: %+v, %v", args, got, ok)
		}
	}
	for scope, hint := range map[string]string{"filter": "`urifilter token new`", "sumbit": "`uridownloader token new --help`"} {
		var out, errOut strings.Builder
		if code := run(t.Context(), []string{"token", "new", "--scopes", scope}, strings.NewReader(""), &out, &errOut); code != 2 || !strings.Contains(errOut.String(), "hint: "+hint) {
			t.Errorf("%s: %d, %q", scope, code, &errOut)
		}
	}
}
