package settings

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
)

// elsewhere is this machine as a host, whose /etc is a folder.
type elsewhere struct {
	host.Host
	etc string
}

func (h elsewhere) Run(ctx context.Context, c host.Command) (host.Output, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(c.Script, "/etc/", h.etc+"/"))
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = c.Stdin, &stdout
	err := cmd.Run()
	return host.Output{Stdout: stdout.String()}, err
}

// A token that the operator has removed is removed from the hosts, also if its name has a blank: it would be valid for
// ever.
func TestRemovedTokenWithABlankInItsName(t *testing.T) {
	t.Parallel()
	p, h := urifilter.Program(), elsewhere{etc: t.TempDir()}
	gone, stays := entry{"Alice's crawler", "sha256:" + strings.Repeat("a", 64), []string{"filter"}}, entry{"own", "sha256:" + strings.Repeat("b", 64), []string{"admin"}}
	for path, text := range map[string]string{
		TokensPath(p): gone.lines() + stays.lines(), p.TokenFile(): strings.Repeat("c", 64) + "\n",
		p.ConfigDir() + "/." + tokensName + ".managed": merged(names([]entry{gone}), ""),
	} {
		path = strings.Replace(path, "/etc", h.etc, 1)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	values := of(t, "auth: {tokens_file: "+TokensPath(p)+"}", "hosts.yaml")
	f := &Files{Program: p, Group: p.User(), Values: func(context.Context) (Values, error) { return values, nil }}
	e, err := f.wantTokens(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if text := e.file.Content; strings.Contains(text, "Alice") || !strings.Contains(text, stays.lines()) {
		t.Errorf("the tokens of the host:\n%s", text)
	}
	if e.managed.Content != operator+"\n" {
		t.Errorf("managed: %q", e.managed.Content)
	}
}
