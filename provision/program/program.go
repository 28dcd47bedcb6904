// Package program describes what the toolkit puts on hosts: which roles run it, how it is
// built, how its settings are read, and how it is checked after a start. The packages that
// upload, set up, start and watch a daemon accept a Program, and know none by name; each
// program has a package below this one.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// Program is a daemon with its command line.
type Program struct {
	// Program has its name, its places on a host, and what its units say. Besides what that
	// needs, its command line has `version`, whose first line begins with the name.
	systemd.Program
	// Roles are those of the hosts that run it.
	Roles []string
	// Single are those of the Roles that at most one host has.
	Single []string
	// Section is the section of the inventory that is about it; "": none.
	Section string
	// Package is what it is built from, relative to the root of the repository: ./daemon/x.
	Package string
	// Parse reads settings strictly; name is that of the file, for errors.
	Parse func(name string, text []byte) (Settings, error)
	// Ready is the path that answers 200 when the daemon can do its work: /readyz.
	Ready string
	// Scopes are what the host's own token may do, if the daemon asks for tokens;
	// TokenScopes are all that a token can allow, and Caller is the scope of most callers.
	Scopes, TokenScopes []string
	Caller              string
	// Servers are the servers for which its settings have keys, which are filled in from the
	// roles of other hosts: redis.*, mysql.* and mongodb.*.
	Servers Servers
	// On returns what differs on a host with some of its roles; nil: nothing. An error says
	// which roles do not go together.
	On func(roles []string) (Variant, error)
	// Run is the command that runs its daemon on a host, one of Daemons; "": the first.
	Run string
	// BitMaps means that its command line has `bitmap`: bit-maps that store and archive lack
	// are created before a start.
	BitMaps bool
	// Counts reads the text of its /metrics; nil: the toolkit shows no rates of it.
	Counts func(metrics string) (Counts, error)
}

// Servers are kinds of servers that a program may call.
type Servers struct {
	Redis, MySQL, MongoDB bool
	// Filter means that it calls the daemon of a filter host: filter.url and filter.token_file.
	Filter bool
	// Store is the one that the key store of its settings names, if they have that key: redis
	// or mongodb.
	Store string
}

// Variant is a program as hosts with some of its roles run it.
type Variant struct {
	// Run is the command that runs its daemon on such a host, Parse reads settings as it does.
	Run   string
	Parse func(name string, text []byte) (Settings, error)
	// Servers are those that it calls on such a host.
	Servers Servers
}

// For returns the program as a host with these roles runs it.
func (p Program) For(roles []string) (Program, error) {
	if p.On == nil {
		return p, nil
	}
	v, err := p.On(slices.DeleteFunc(slices.Clone(roles), func(role string) bool { return !p.Runs(role) }))
	p.Run, p.Parse, p.Servers = v.Run, v.Parse, v.Servers
	return p, err
}

// Runs reports whether hosts with a role run it.
func (p Program) Runs(role string) bool { return slices.Contains(p.Roles, role) }

// File returns the name, on the operator's machine, of a build for servers of an architecture.
func (p Program) File(arch string) string { return p.Name + "-linux-" + arch }

// Of returns the program that hosts with a role run; false: none.
func Of(all []Program, role string) (Program, bool) {
	i := slices.IndexFunc(all, func(p Program) bool { return p.Runs(role) })
	if i < 0 {
		return Program{}, false
	}
	return all[i], true
}

// Roles returns the roles of all programs, in their order.
func Roles(all []Program) []string {
	var roles []string
	for _, p := range all {
		roles = append(roles, p.Roles...)
	}
	return roles
}

// Settings are what the toolkit must know about a program's settings.
type Settings struct {
	// Validate returns all faults, joined; each fault names its key.
	Validate func() error
	// Listen is the host:port of the daemon, URL its address for calls on its own host.
	Listen, URL string
	// More are other host:port on which it listens, by the names of their settings.
	More    map[string]string
	DataDir string
	// TokensFile holds the tokens that it accepts; "": it asks for none.
	TokensFile string
	// Reread are other files that it reads again upon a reload. Some may be "".
	Reread []string
	// AtStart are files that it reads only when it starts, such as passwords of the servers that it calls.
	// Some may be "".
	AtStart []string
	// BitMaps are the names of the bit-maps that it must have.
	BitMaps []string
	// Database is that of its archive, if it has one.
	Database string
	// Packages are the packages of the host's system that the settings need.
	Packages []string
	// PlainRedis means that it calls Redis without TLS.
	PlainRedis bool

	// Ask makes the daemon do its work once, through a tunnel to its host. Nil: it is enough
	// that the daemon is ready.
	Ask func(ctx context.Context, d Daemon) error
	// AskOnHost does the same with the program at path, on a host that opens no tunnels; the
	// token is "" if the daemon asks for none. Nil: such a host cannot be checked.
	AskOnHost func(ctx context.Context, h host.Host, path, token string) error
}

// Daemon is a running daemon of a program, to be called over HTTP.
type Daemon interface {
	// Host is the name of its host in the inventory.
	Host() string
	// Call sends a request with the host's own token; body is JSON, "" for none. An
	// answer with any status is not an error.
	Call(ctx context.Context, method, path, body string) (Answer, error)
}

// Answer is the response to a call.
type Answer struct {
	Status int
	Body   string // at most 16 MiB of it: metrics of a thousand filters are 2 MiB
}

// Problem is the error for an answer other than 200.
type Problem struct {
	Code string // error_code of problem+json, "" if the answer is another text
	text string
}

func (p *Problem) Error() string { return p.text }

// Problem returns the answer as an error; call names it for people: "GET /readyz".
func (a Answer) Problem(call string) error {
	var told struct {
		Detail string `json:"detail"`
		Code   string `json:"error_code"`
	}
	p := &Problem{}
	if json.Unmarshal([]byte(a.Body), &told) == nil && told.Code != "" {
		p.Code = told.Code
		p.text = fmt.Sprintf("%s: %d %s: %s", call, a.Status, told.Code, told.Detail)
	} else {
		p.text = fmt.Sprintf("%s: %d %s: %s", call, a.Status, http.StatusText(a.Status), a.Short())
	}
	return p
}

// Short returns the beginning of the body, in one line.
func (a Answer) Short() string {
	text := strings.Join(strings.Fields(a.Body), " ")
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return text
}

// CLI is a program's command line on a host, for its daemon on the same host.
type CLI struct {
	Program   systemd.Program
	Binary    string // path of the program
	TokenFile string // path of the file with the host's own token; it may be missing
	User      string // of the service, who runs it
}

// Command runs the program with words, which are shell text. The token goes from its file into an environment variable
// of the program: no argument contains it.
func (c CLI) Command(words string) host.Command {
	// The working directory must be readable for the user, whoever logged in.
	script := fmt.Sprintf("cd /\nif [ -r %s ]; then %[2]s=$(cat %[1]s); export %[2]s; fi\nexec %[3]s %[4]s",
		host.Quote(c.TokenFile), c.Program.Env("TOKEN"), host.Quote(c.Binary), words)
	return host.Command{Script: script, User: c.User}
}

// Said returns the message with which the program has failed, "" if it is none of its own.
func (c CLI) Said(err error) string {
	failed, is := errors.AsType[*host.CommandError](err)
	if !is {
		return ""
	}
	// Lines before the error only report progress.
	_, said, _ := strings.Cut("\n"+strings.TrimSpace(failed.Output.Stderr), "\n"+c.Program.Name+": ")
	return said
}

// Counts are what the metrics of a daemon say at one moment.
type Counts struct {
	Ready   bool
	Version string
	// Began is when the process started, in seconds since 1970: the next four count from there.
	Began                        float64
	Requests, Errors, Items, New float64
	Filters                      []FilterCounts
}

// FilterCounts are those of one filter.
type FilterCounts struct {
	Name     string  `json:"name"`
	Items    float64 `json:"items"`
	Capacity float64 `json:"capacity,omitempty"` // 0: it has none
	FPR      float64 `json:"fpr_estimate,omitempty"`
}

// Full is the share of its capacity that a filter has taken; 0 without a capacity.
func (f FilterCounts) Full() float64 {
	if f.Capacity == 0 {
		return 0
	}
	return f.Items / f.Capacity
}
