// Package program describes what the toolkit puts on hosts: which roles run it, how it is
// built, how its settings are read, and what it is asked after a start. The packages that
// upload, set up, start and watch a daemon take a Program, and know none by name; the
// programs that there are have packages below this one.
package program

import (
	"context"
	"slices"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// Program is a daemon with its command line.
type Program struct {
	// Program has its name, its places on a host, and what its units say. Its command line
	// has, beside what that wants, `version`, whose first line begins with the name.
	systemd.Program
	// Roles are those of the hosts that run it.
	Roles []string
	// Single are those of them that one host has at most.
	Single []string
	// Section is that of the inventory which is about it; "": none.
	Section string
	// Package is what it is built from, relative to the root of the repository: ./daemon/x.
	Package string
	// Parse reads settings strictly; name is that of the file, for errors.
	Parse func(name string, text []byte) (Settings, error)
	// Ready is the path that answers 200 when the daemon can do its work: /readyz.
	Ready string
	// Scopes are what the host's own token may do, where the daemon asks for tokens;
	// TokenScopes are all that a token can allow, and Caller is that of most callers.
	Scopes, TokenScopes []string
	Caller              string
	// Servers are what its settings have keys for, which are filled in from the roles of
	// other hosts: redis.*, mysql.* and mongodb.*.
	Servers Servers
	// On is what differs on a host with some of its roles; nil: nothing. An error says which
	// roles do not go together.
	On func(roles []string) (Variant, error)
	// Run is the command that is its daemon on a host, one of Daemons; "": the first.
	Run string
	// BitMaps is that its command line has `bitmap`: what is missing in store and archive
	// is made before a start.
	BitMaps bool
}

// Servers are kinds of servers that a program may call.
type Servers struct {
	Redis, MySQL, MongoDB bool
	// Filter is that it asks the daemon of a filter host: filter.url and filter.token_file.
	Filter bool
	// Store is that which the key store of its settings names, where there is one: redis or
	// mongodb.
	Store string
}

// Variant is a program as the hosts of some of its roles run it.
type Variant struct {
	// Run is the command that is its daemon there, Parse reads settings as that does.
	Run   string
	Parse func(name string, text []byte) (Settings, error)
	// Servers are those that it calls there.
	Servers Servers
}

// For is the program as a host with these roles runs it.
func (p Program) For(roles []string) (Program, error) {
	if p.On == nil {
		return p, nil
	}
	v, err := p.On(slices.DeleteFunc(slices.Clone(roles), func(role string) bool { return !p.Runs(role) }))
	p.Run, p.Parse, p.Servers = v.Run, v.Parse, v.Servers
	return p, err
}

// Runs tells whether hosts with a role run it.
func (p Program) Runs(role string) bool { return slices.Contains(p.Roles, role) }

// File is what a build for servers of an architecture is called on the operator's machine.
func (p Program) File(arch string) string { return p.Name + "-linux-" + arch }

// Of is the program that hosts of a role run; false: none.
func Of(all []Program, role string) (Program, bool) {
	i := slices.IndexFunc(all, func(p Program) bool { return p.Runs(role) })
	if i < 0 {
		return Program{}, false
	}
	return all[i], true
}

// Roles are those of all programs, in their order.
func Roles(all []Program) []string {
	var roles []string
	for _, p := range all {
		roles = append(roles, p.Roles...)
	}
	return roles
}

// Settings are what the toolkit has to know of a program's settings.
type Settings struct {
	// Validate returns all that is wrong with them, joined, each fault naming its key.
	Validate func() error
	// Listen is the host:port of the daemon, URL how it is called on its own host.
	Listen, URL string
	DataDir     string
	// TokensFile holds the tokens that it takes; "": it asks for none.
	TokensFile string
	// Reread are other files that it reads again upon a reload. Some may be "".
	Reread []string
	// BitMaps are the names of those that it shall have.
	BitMaps []string
	// Database is that of its archive, where it has one.
	Database string
	// Packages are those of the host's system that they need.
	Packages []string
	// PlainRedis is that it calls Redis without TLS.
	PlainRedis bool

	// Ask has the daemon do its work once, through a tunnel to its host. Nil: that it is
	// ready is enough.
	Ask func(ctx context.Context, d Daemon) error
	// AskOnHost does the same by the program at path, on a host that opens no tunnels; the
	// token is "" where none is asked for. Nil: such a host cannot be checked.
	AskOnHost func(ctx context.Context, h host.Host, path, token string) error
}
