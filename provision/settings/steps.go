package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/provision/yamledit"
)

// tokensName is the file of the tokens that a daemon accepts, in the folder of its settings.
const tokensName = "tokens.yaml"

// TokensPath returns the path of that file for a program.
func TokensPath(p program.Program) string { return p.ConfigDir() + "/" + tokensName }

// header begins a file that did not exist.
const header = `# Settings of the %[1]s daemon on this host. The toolkit keeps the keys that its
# inventory gives, and leaves every other line alone. Keys that are not here have their
# defaults: %[1]s config example
`

// Files are a program's files on one host. Its steps belong to one run.
type Files struct {
	Program program.Program
	// Values returns the settings that this host's daemon should get.
	Values func(ctx context.Context) (Values, error)
	// Tokens are those of the operator's tokens file, if there is one.
	Tokens configs.Tokens
	// Callers are other programs that call the daemon with tokens that the host has made.
	Callers []Caller
	// Group may read the files; it is the daemon's.
	Group string
}

// Caller is a program that calls a daemon.
type Caller struct {
	Name   string
	Scopes []string
	// TokenFile holds its token, on the host of the daemon.
	TokenFile string
}

// file is a file that root writes and the daemon may read.
func (f *Files) file(path string) host.File {
	return host.File{Path: path, Mode: 0o640, Owner: "root", Group: f.Group}
}

// name is the name of the settings file.
func (f *Files) name() string { return f.Program.Name + ".yaml" }

// managed is the file that lists which keys, or tokens, of a file the toolkit manages.
func (f *Files) managed(name string) host.File {
	return host.File{Path: f.Program.ConfigDir() + "/." + name + ".managed"}
}

// want edits the host's file in memory, and checks the result as the daemon would.
func (f *Files) want(ctx context.Context, h host.Host) (e edit, s program.Settings, err error) {
	values, err := f.Values(ctx)
	if err != nil {
		return e, s, err
	}
	// Alone first: a fault of the operator's own files is reported in their words.
	if _, err := values.Read(f.Program); err != nil {
		return e, s, err
	}
	e.file, e.managed = f.file(f.Program.Config()), f.managed(f.name())
	now, err := host.ReadFiles(ctx, h, e.file.Path, e.managed.Path)
	if err != nil {
		return e, s, err
	}
	e.before, e.managedBefore = now[e.file.Path], now[e.managed.Path]

	edits := values.edits()
	for _, key := range listed(e.managedBefore.Content) {
		if !values.Has(key) {
			edits = append(edits, yamledit.Edit{Key: key})
		}
	}
	start := e.before.Content
	if e.before.Path == "" {
		start = fmt.Sprintf(header, f.Program.Name)
	}
	if e.file.Content, err = yamledit.Apply(e.file.Path, start, edits); err != nil {
		return e, s, onHost(e.file.Path, err)
	}
	if s, err = f.Program.Parse(e.file.Path, []byte(e.file.Content)); err == nil {
		err = s.Validate()
	}
	if err != nil {
		return e, s, onHost(e.file.Path, err)
	}
	keys := values.Keys()
	slices.Sort(keys)
	e.managed.Content = strings.Join(keys, "\n") + "\n"
	return e, s, nil
}

func onHost(path string, err error) error {
	return fmt.Errorf("on the host: %w\nhint: fix %s there, or move it away to get a new one", err, path)
}

// Settings is the step for NAME.yaml.
func (f *Files) Settings() step.Undoer {
	return f.editing(f.name(), func(ctx context.Context, h host.Host) (edit, error) {
		e, _, err := f.want(ctx, h)
		return e, err
	})
}

// explain adds what to do if the host is not prepared.
func explain(err error, f *Files) error {
	var failed *host.CommandError
	if errors.As(err, &failed) && (strings.Contains(failed.Output.Stderr, "invalid group") || strings.Contains(failed.Output.Stderr, "No such file")) {
		return fmt.Errorf("%w\nhint: the host has no group %s or no %s yet: go tool mage install:env", err, f.Group, f.Program.ConfigDir())
	}
	return err
}

// Check is the step of a preflight that checks whether the settings are valid for this host,
// as far as can be told without changing it.
func (f *Files) Check() step.Proof {
	return step.NewProof("preflight: settings", func(ctx context.Context, h host.Host) error {
		_, _, err := f.want(ctx, h)
		return err
	})
}

// Accepted is the step in which a program on the host checks the settings that are there now,
// with the rights of the daemon: the program may be another version than this one, and the
// files that the settings name must be readable.
func (f *Files) Accepted(program func() string, user string) step.Proof {
	return step.NewProof("settings: accepted by the release", func(ctx context.Context, h host.Host) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		script := fmt.Sprintf("%s config check --config %s", host.Quote(program()), host.Quote(f.file(f.Program.Config()).Path))
		_, err := h.Run(ctx, host.Command{User: user, Script: script, Look: true})
		if failed, is := errors.AsType[*host.CommandError](err); is {
			said := strings.TrimPrefix(strings.TrimSpace(failed.Output.Stderr+failed.Output.Stdout), f.Program.Name+": ")
			if !strings.Contains(said, "\nhint: ") {
				said += "\nhint: fix the settings, or put the files that they name on the host, readable for " + user
			}
			return fmt.Errorf("the release refuses the settings of the host: %s", said)
		}
		return err
	})
}

// OnHost returns the settings that a program's daemon has on a host now, whatever they
// should be. Without a settings file they are the defaults.
func OnHost(ctx context.Context, h host.Host, p program.Program) (program.Settings, error) {
	file, there, err := host.ReadFile(ctx, h, p.Config())
	if err != nil {
		return program.Settings{}, err
	}
	s, err := p.Parse(p.Config(), []byte(file.Content))
	if err != nil && there {
		return s, onHost(p.Config(), err)
	}
	return s, err
}
