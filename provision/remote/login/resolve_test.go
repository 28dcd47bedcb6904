package login

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/inventory"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := func(name string) string { return filepath.Join(home, ".ssh", name) }
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{Home: home, ConfigFile: file("config"), Getenv: func(string) string { return "" }}
	config := `Host web
  HostName %h.example.com
  User deploy
  Port 2222
  IdentityFile ~/.ssh/%h-%r
  UserKnownHostsFile ~/.ssh/known_web ~/.ssh/known_2
  ProxyJump gate
Host gate
  HostName 192.0.2.9
  ProxyJump admin@outer:2200
Host circle
  ProxyJump circle2
Host circle2
  ProxyJump circle
Host command
  ProxyCommand nc %h %p
Host *
  HostKeyAlias shared
Host own
  ProxyJump own
`
	if err := os.WriteFile(o.ConfigFile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := New(o)
	names := func(h inventory.Host) string {
		chain, err := d.Route(h)
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, t := range chain {
			all = append(all, t.String())
		}
		return strings.Join(all, " ")
	}
	me := localUser(os.Getenv)
	for _, c := range []struct {
		h    inventory.Host
		want string
	}{
		{inventory.Host{Address: "web"}, "admin@outer:2200 " + me + "@192.0.2.9:22 deploy@web.example.com:2222"},
		{inventory.Host{Address: "web", Login: inventory.Login{User: "root", Port: 22, Bastion: inventory.Bastion{{Host: "none"}}}}, "root@web.example.com:22"},
		{inventory.Host{Address: "web", Login: inventory.Login{Bastion: inventory.Bastion{{Host: "a"}, {User: "u", Host: "::1", Port: 2}}}}, me + "@a:22 u@[::1]:2 deploy@web.example.com:2222"},
		{inventory.Host{Address: "own"}, me + "@own:22"},
	} {
		if got := names(c.h); got != c.want {
			t.Errorf("%s: got %s, want %s", c.h.Address, got, c.want)
		}
	}
	for address, want := range map[string]string{"circle": "is ProxyJump of", "command": "ProxyCommand is not supported"} {
		if got := names(inventory.Host{Address: address}); !strings.Contains(got, want) || !strings.Contains(got, o.ConfigFile) {
			t.Errorf("%s: got %s, want %q in it", address, got, want)
		}
	}
	chain, err := d.Route(inventory.Host{Address: "web"})
	if err != nil {
		t.Fatal(err)
	}
	web := chain[2]
	if len(web.files) != 1 || web.files[0] != file("web.example.com-deploy") || web.known[0] != file("known_web") || web.known[1] != file("known_2") || web.keyName != "shared:22" {
		t.Errorf("got %+v", web)
	}

	for text, want := range map[string]string{"Host web\n  Port many\n": `Port "many"`, "Match exec true\n  User x\n": "hint: URIFILTER_SSH_CONFIG names another file"} {
		if err := os.WriteFile(o.ConfigFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(o).Route(inventory.Host{Address: "web"}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), o.ConfigFile) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
	o.ConfigFile = file("gone")
	if _, err := New(o).Route(inventory.Host{Address: "web"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: got %v", err)
	}
}

// The call that people paste reaches users of a domain, whose names have a backslash, and machines on the way that have
// an address of IPv6, whatever their shell does with such characters.
func TestCallForAShell(t *testing.T) {
	t.Parallel()
	target := Target{user: `EXAMPLE\alice`, address: "web1", port: 22, jump: []string{"gate@[2001:db8::1]:22"}}
	if got, want := target.Call("true"), `ssh -J "gate@[2001:db8::1]:22" "EXAMPLE\alice@web1" true`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
