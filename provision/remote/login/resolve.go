package login

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"

	"github.com/cr-clawer/urifilter/provision/inventory"
)

// Target is a machine to log in to, the host itself or one on the way to it.
type Target struct {
	name          string // of the host in the inventory, or the bastion's as it was written
	user, address string
	port          int
	jump          []string // the machines on the way, as ssh -J takes them
	ownKnown      string   // the file of known hosts that the inventory names; "": ssh's own

	files    []string // private keys that somebody named, in their order
	must     []string // those of files that must exist
	only     bool     // offer no keys but files
	agent    string   // the agent's address; "" for none
	keyName  string   // what the host is called in known_hosts, host:port
	known    []string // the files of known hosts; new keys go to the first
	trustNew bool

	passwordEnv, sudoEnv string
}

// User is the user that logs in, SudoEnv the variable with that user's password for sudo.
func (t Target) User() string    { return t.user }
func (t Target) SudoEnv() string { return t.sudoEnv }

func (t Target) hostport() string { return net.JoinHostPort(t.address, strconv.Itoa(t.port)) }
func (t Target) String() string   { return t.user + "@" + t.hostport() }

// Call returns the call of ssh that runs a command there, for people to paste.
func (t Target) Call(command string) string {
	call := "ssh "
	if t.port != 22 {
		call += fmt.Sprintf("-p %d ", t.port)
	}
	for _, file := range t.must {
		call += "-i " + QuoteArg(file) + " "
	}
	if t.ownKnown != "" {
		call += "-o UserKnownHostsFile=" + QuoteArg(t.ownKnown) + " "
	}
	if len(t.jump) > 0 {
		call += "-J " + QuoteArg(strings.Join(t.jump, ",")) + " "
	}
	return call + QuoteArg(t.user+"@"+t.address) + " " + command
}

// maxHops bounds a chain, which a circle in ssh_config could make endless.
const maxHops = 8

// Route returns the machines to log in to: those on the way first, the host last.
func (d *Dialer) Route(h inventory.Host) ([]Target, error) {
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	t, jump, err := d.resolve(config, inventory.Hop{User: h.User, Host: h.Address, Port: h.Port}, h.Login)
	if err != nil {
		return nil, err
	}
	t.name = h.Name
	t.passwordEnv = cmp.Or(h.PasswordEnv, PasswordEnv)
	if len(h.Bastion) > 0 {
		jump = h.Bastion
	} else if command := config.firstValue(h.Address, "ProxyCommand"); len(jump) == 0 && command != "" && command != "none" {
		return nil, fmt.Errorf("%s: ProxyCommand is not supported\nhint: give the bastion in the inventory, or a ProxyJump in place of it; bastion: none connects directly", config.names())
	}
	chain := []Target{t}
	for len(jump) > 0 && !jump.None() {
		if len(chain)+len(jump) > maxHops {
			return nil, fmt.Errorf("more than %d hosts on the way to it: is ProxyJump of %s a loop?", maxHops-1, config.names())
		}
		var way []Target
		var next inventory.Bastion
		for i, step := range jump {
			hop, further, err := d.resolve(config, step, h.Login)
			if err != nil {
				return nil, err
			}
			hop.name, hop.passwordEnv = step.Host, BastionPasswordEnv
			way = append(way, hop)
			if i == 0 {
				next = further // the way to the first one
			}
		}
		chain, jump = append(way, chain...), next
	}
	last := &chain[len(chain)-1]
	for _, hop := range chain[:len(chain)-1] {
		last.jump = append(last.jump, hop.String())
	}
	return chain, nil
}

// resolve adds what ssh_config says to what is known of a machine. Its second result is
// its ProxyJump.
func (d *Dialer) resolve(config *sshConfig, to inventory.Hop, login inventory.Login) (t Target, jump inventory.Bastion, err error) {
	alias := to.Host
	t = Target{address: alias, user: to.User, port: to.Port, trustNew: login.HostKeys == "accept-new", sudoEnv: cmp.Or(login.SudoPasswordEnv, SudoPasswordEnv)}
	if name := config.firstValue(alias, "HostName"); name != "" {
		t.address = strings.NewReplacer("%%", "%", "%h", alias).Replace(name)
	}
	t.user = cmp.Or(t.user, config.firstValue(alias, "User"), d.user)
	if t.user == "" {
		return t, nil, errors.New("no user to log in as: give one in the inventory")
	}
	if t.port == 0 {
		t.port = 22
		if text := config.firstValue(alias, "Port"); text != "" {
			if t.port, err = strconv.Atoi(text); err != nil || t.port < 1 || t.port > 65535 {
				return t, nil, fmt.Errorf("%s: Port %q: want 1 to 65535", config.names(), text)
			}
		}
	}
	expand := func(path string) string { return d.expand(path, alias, t) }
	if login.IdentityFile != "" {
		t.files = append(t.files, login.IdentityFile)
		t.must = append(t.must, login.IdentityFile)
	}
	for _, file := range config.all(alias, "IdentityFile") {
		if file = expand(file); file != "" && file != "none" && !slices.Contains(t.files, file) {
			t.files = append(t.files, file)
		}
	}
	t.only = strings.EqualFold(config.firstValue(alias, "IdentitiesOnly"), "yes")
	switch agent := config.firstValue(alias, "IdentityAgent"); {
	case agent == "" || agent == "SSH_AUTH_SOCK":
		t.agent = d.o.Getenv("SSH_AUTH_SOCK")
	case strings.HasPrefix(agent, "$"):
		t.agent = d.o.Getenv(strings.Trim(agent, "${}"))
	case agent != "none":
		t.agent = expand(agent)
	}
	t.keyName = t.hostport()
	if alias := config.firstValue(alias, "HostKeyAlias"); alias != "" {
		t.keyName = net.JoinHostPort(alias, "22")
	}
	t.known, t.ownKnown = d.knownFiles(config, alias, login.KnownHosts, expand), login.KnownHosts
	if text := config.firstValue(alias, "ProxyJump"); text != "" && !strings.EqualFold(text, "none") {
		if err := jump.UnmarshalText([]byte(text)); err != nil {
			return t, nil, fmt.Errorf("%s: ProxyJump: %w", config.names(), err)
		}
		if jump[len(jump)-1].Host == alias { // Host * applies to the bastion too
			jump = nil
		}
	}
	return t, jump, nil
}

func (d *Dialer) knownFiles(config *sshConfig, alias, own string, expand func(string) string) []string {
	if own != "" {
		return []string{own}
	}
	var files []string
	for _, file := range strings.Fields(config.firstValue(alias, "UserKnownHostsFile")) {
		if file = strings.Trim(file, `"`); file != "none" {
			files = append(files, expand(file))
		}
	}
	if len(files) == 0 {
		files = []string{filepath.Join(d.o.Home, ".ssh", "known_hosts")}
	}
	for _, file := range strings.Fields(cmp.Or(config.firstValue(alias, "GlobalKnownHostsFile"), "/etc/ssh/ssh_known_hosts")) {
		if file != "none" {
			files = append(files, expand(file))
		}
	}
	return files
}

// expand expands a path as ssh_config(5) describes.
func (d *Dialer) expand(path, alias string, t Target) string {
	path = strings.Trim(path, `"`)
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(d.o.Home, rest)
	}
	path = strings.NewReplacer("%%", "%", "%d", d.o.Home, "%h", t.address, "%n", alias,
		"%p", strconv.Itoa(t.port), "%r", t.user, "%u", d.user).Replace(path)
	if path != "" && path != "none" && !filepath.IsAbs(path) {
		path = filepath.Join(d.o.Home, ".ssh", path)
	}
	return filepath.FromSlash(path)
}

// sshConfig is the configuration that ssh itself reads. Values come without ssh's defaults.
type sshConfig struct {
	files []*ssh_config.Config
	paths []string
}

// readConfig reads a file, or the usual ones if path is "".
func readConfig(path, home string) (*sshConfig, error) {
	paths := []string{path}
	switch path {
	case "none":
		return &sshConfig{}, nil
	case "":
		paths = []string{filepath.Join(home, ".ssh", "config"), "/etc/ssh/ssh_config"}
	}
	c := &sshConfig{}
	for _, p := range paths {
		f, err := os.Open(p)
		if path == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		parsed, err := ssh_config.Decode(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\nhint: %s names another file, and %[3]s=none none at all", p, err, ConfigEnv)
		}
		c.files, c.paths = append(c.files, parsed), append(c.paths, p)
	}
	return c, nil
}

func (c *sshConfig) names() string { return strings.Join(c.paths, " and ") }

// firstValue returns the first value of a key for a host, "" if there is none.
func (c *sshConfig) firstValue(alias, key string) string {
	for _, f := range c.files {
		if value, err := f.Get(alias, key); err == nil && value != "" {
			return value
		}
	}
	return ""
}

func (c *sshConfig) all(alias, key string) []string {
	var all []string
	for _, f := range c.files {
		if values, err := f.GetAll(alias, key); err == nil {
			all = append(all, values...)
		}
	}
	return all
}

// Address returns the address to which a host's name leads, by ssh_config; the name itself if that
// cannot be read, which a login then reports.
func (d *Dialer) Address(h inventory.Host) string {
	config, err := d.config()
	if err != nil {
		return h.Address
	}
	t, _, err := d.resolve(config, inventory.Hop{User: h.User, Host: h.Address, Port: h.Port}, h.Login)
	if err != nil {
		return h.Address
	}
	return t.address
}
