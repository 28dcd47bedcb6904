package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/configs/strict"
)

// The files to look for, below the working directory.
const (
	DefaultPath = "configs/hosts.yaml"
	SandboxPath = ".sandbox/hosts.yaml"
)

// The environment variables that define the hosts.
const (
	HostsEnv = "URIFILTER_HOSTS"     // user@host:port,...
	PathEnv  = "URIFILTER_INVENTORY" // a file in place of DefaultPath
)

// Source is the location of the inventory.
type Source struct {
	// Path is the file that a flag names; "": that of PathEnv, or DefaultPath, or
	// SandboxPath if that is all there is.
	Path string
	// Dir is the base of relative paths; "": the working directory.
	Dir string
	// Roles are those of hosts that run a program; nil: only filter.
	Roles []string
	// Getenv looks up environment variables; nil: os.Getenv.
	Getenv func(string) string
}

// Open reads the inventory. The hosts of URIFILTER_HOSTS replace those of a file unless a flag
// names it; the rest of the file applies to them. The notice, when it is not "", is for people: it
// says which file is used where they may not expect it.
func Open(s Source) (i *Inventory, notice string, err error) {
	if s.Getenv == nil {
		s.Getenv = os.Getenv
	}
	hosts := strings.TrimSpace(s.Getenv(HostsEnv))
	path, named := s.Path, s.Path != ""
	if named {
		hosts = ""
	} else if path = s.Getenv(PathEnv); path != "" {
		named = true
	}
	if !named {
		path, notice = s.usual()
	}
	switch {
	case path != "":
		var unread error
		if i, unread = load(s.join(path)); i == nil {
			return nil, "", unread
		}
		defer func() { // in addition to other faults
			if unread != nil {
				i, notice, err = nil, "", errors.Join(unread, err)
			}
		}()
	case hosts != "":
		i = Default()
	default:
		return nil, "", fmt.Errorf("%s: there is no inventory of hosts\nhint: cp configs/hosts.example.yaml %[1]s and write your hosts there; or set %s=user@host:port,...; or make throw-away hosts on this machine with: go tool mage sandbox:up", DefaultPath, HostsEnv)
	}
	if hosts != "" {
		notice = ""
		if path != "" {
			notice = fmt.Sprintf("%s takes the place of the hosts in %s", HostsEnv, path)
		}
		if i.Hosts, err = parseHosts(hosts); err != nil {
			return nil, "", err
		}
		i.from = HostsEnv
	}
	i.programs = s.Roles
	i.complete()
	if err := i.Validate(); err != nil {
		return nil, "", i.named(err)
	}
	return i, notice, nil
}

// usual returns the file that is used by default, "" for none.
func (s Source) usual() (path, notice string) {
	if fileExists(s.join(DefaultPath)) {
		return DefaultPath, ""
	}
	if fileExists(s.join(SandboxPath)) {
		return SandboxPath, fmt.Sprintf("%s does not exist: using %s, the throw-away hosts of this machine", DefaultPath, SandboxPath)
	}
	return "", ""
}

func (s Source) join(path string) string { return within(s.Dir, path) }

// within returns a path that is relative to a folder, "" for the working directory.
func within(dir, path string) string {
	path = expandHome(filepath.FromSlash(path))
	if dir == "" || path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// load returns the readable part of a file with the errors of the rest; nil: nothing is readable.
func load(path string) (*Inventory, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w\nhint: cp configs/hosts.example.yaml %s and write your hosts there", err, path)
	} else if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// parse reads the text of a file and does not validate it. Faults name file, line and key; beside them is what could be
// read. Relative paths in it are relative to the folder of path.
func parse(path string, data []byte) (*Inventory, error) {
	i := Default()
	err := strict.Decode(path, data, i)
	if errors.As(err, new(*strict.SyntaxError)) {
		return nil, err
	}
	faults := []error{err}
	for _, section := range sections() {
		own, prefix := i.Own(section)
		faults = append(faults, checkSettings(path, prefix+"settings", section, own.Settings))
		for n, h := range i.Hosts {
			faults = append(faults, checkSettings(path, fmt.Sprintf("hosts[%d].%ssettings", n, prefix), section, h.Own(section).Settings))
		}
	}
	i.path, i.from = path, path
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, p := range i.paths() {
		*p = within(dir, *p)
	}
	return i, errors.Join(faults...)
}

// checkSettings requires keys to be settings of a section's program.
func checkSettings(path, key, section string, n *yaml.Node) error {
	switch {
	case n == nil:
		return nil
	case section == SectionDownloader:
		return downloader.CheckKeys(path, key, n)
	}
	return configs.CheckKeys(path, key, n)
}

// paths returns the fields that name files of this machine.
func (i *Inventory) paths() []*string {
	all := []*string{
		&i.SettingsFile, &i.TokensFile, &i.Release.Binary,
		&i.Downloader.SettingsFile, &i.Downloader.TokensFile, &i.Downloader.Binary,
		&i.MongoDB.Bundle, &i.MongoDB.Repository.KeyFile, &i.Packages.Bundle,
		&i.Defaults.IdentityFile, &i.Defaults.KnownHosts,
		&i.TLS.Dir, &i.TLS.CAFile, &i.TLS.CertFile, &i.TLS.KeyFile,
	}
	for n := range i.Hosts {
		h := &i.Hosts[n]
		all = append(all, &h.IdentityFile, &h.KnownHosts, &h.Binary, &h.Downloader.Binary)
	}
	return all
}

// expandHome replaces a ~ at the beginning by the user's home folder.
func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, rest)
}

// parseHosts reads user@host:port,...: the first host has every role, the others are filters,
// because each of several Redis servers would know only a part of the items.
func parseHosts(text string) ([]Host, error) {
	var hosts []Host
	var faults []error
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		hop, err := ParseHop(part)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", HostsEnv, err))
			continue
		}
		h := Host{Name: hop.Host, Address: hop.Host, Login: Login{User: hop.User, Port: hop.Port}, Roles: []string{RoleFilter}}
		// The same address with two ports means two hosts, for example containers.
		for _, other := range hosts {
			if other.Name == h.Name {
				h.Name = fmt.Sprintf("%s-%d", h.Name, hop.Port)
			}
		}
		hosts = append(hosts, h)
	}
	if len(hosts) > 0 {
		hosts[0].Roles = []string{RoleFilter, RoleRedis, RoleMongoDB}
	}
	return hosts, errors.Join(faults...)
}

// complete fills in missing values of hosts.
func (i *Inventory) complete() {
	for n := range i.Hosts {
		h := &i.Hosts[n]
		h.Name = cmp.Or(h.Name, h.Address)
		h.Address = cmp.Or(h.Address, h.Name)
		if h.Roles == nil {
			h.Roles = []string{RoleFilter}
		}
		h.Login = h.Login.over(i.Defaults)
	}
}

// over returns a login with its missing values taken from another.
func (l Login) over(d Login) Login {
	l.User = cmp.Or(l.User, d.User)
	l.IdentityFile = cmp.Or(l.IdentityFile, d.IdentityFile)
	l.KnownHosts = cmp.Or(l.KnownHosts, d.KnownHosts)
	l.Sudo = cmp.Or(l.Sudo, d.Sudo)
	l.PasswordEnv = cmp.Or(l.PasswordEnv, d.PasswordEnv)
	l.SudoPasswordEnv = cmp.Or(l.SudoPasswordEnv, d.SudoPasswordEnv)
	l.HostKeys = cmp.Or(l.HostKeys, d.HostKeys)
	l.Port = cmp.Or(l.Port, d.Port)
	if len(l.Bastion) == 0 {
		l.Bastion = d.Bastion
	}
	return l
}
