// Package systemd renders the unit files that make a program a service: the daemon, its
// socket, the timer that tries again after a crash loop, and the program's monthly job with
// its timer. The files beside this one are templates of the units, which leave open what
// differs between programs and between hosts.
//
// It writes no file and starts no program: the program's own command `service` does that.
package systemd

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"
)

// Dir is the folder for units that neither a package nor the system wrote.
const Dir = "/etc/systemd/system"

// Params are what differs between hosts. Zero fields get the defaults.
type Params struct {
	// Run is the command that runs as the daemon, one of the program's Daemons. Default: the first.
	Run string
	// Binary is the path of the program. Default: that of Program; a link in this path is
	// followed at each start, so that changing the link switches the release.
	Binary string
	// Config is the settings file. Default: that of Program.
	Config string
	// EnvFile contains environment variables, one NAME=value per line; it need not
	// exist. Default: that of Program.
	EnvFile string
	// TokenFile contains only the token with which the job calls the daemon; it need not
	// exist. Default: operator.token beside Config.
	TokenFile string
	// DataDir is data_dir of the settings. systemd creates it under /var/lib; elsewhere it
	// must exist and belong to User. It must not be under /home, /root, /run/user, /tmp or
	// /var/tmp, which the daemon does not see. Default: that of Program.
	DataDir string
	// User and Group run the daemon; they must exist, and must not be root. Default: that of
	// Program; if only User is given, Group is User.
	User, Group string
	// Listen are the addresses to listen on, host:port, as in listen of the settings; the host
	// is an IP address, localhost, or empty for every address. Default: 127.0.0.1:8000.
	Listen []string
}

// File is one rendered unit.
type File struct {
	Name    string // without a folder
	Content []byte
	Mode    fs.FileMode
}

//go:embed *.service *.socket *.timer
var units embed.FS

// Render returns all units of a program, sorted by name. The error is that of Validate, for
// the program or for what is given for the host.
func Render(of Program, p Params) ([]File, error) {
	p = p.withDefaults(of)
	if err := errors.Join(of.Validate(), p.validate(of)); err != nil {
		return nil, err
	}
	v := values{
		Params: p, Name: of.Name, Does: of.Does, Documentation: of.Documentation, Job: of.Job, Jails: of.Jails,
		Service: of.Service(), Socket: of.Socket(), Retry: of.Retry(), JobService: of.JobService(), TokenEnv: of.Env("TOKEN"), TokenFileEnv: of.Env("TOKEN_FILE"),
		StateDirectory: below("/var/lib", p.DataDir), ConfigurationDirectory: below("/etc", path.Dir(p.Config)),
	}
	forms := map[string]string{"daemon.service": v.Service, "daemon.socket": v.Socket, "retry.timer": v.Retry}
	if of.Job != nil {
		forms["job.service"], forms["job.timer"] = v.JobService, of.JobTimer()
		v.Command = strings.Join(of.Job.Args, " ")
	}
	for _, l := range p.Listen {
		stream, err := listenStream(l)
		if err != nil {
			return nil, err
		}
		v.Streams = append(v.Streams, stream)
	}
	var files []File
	for form, name := range forms {
		f, err := render(form, name, v)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// render fills in a template, for the unit of that name.
func render(form, name string, values any) (File, error) {
	var text bytes.Buffer
	t, err := template.New(form).Option("missingkey=error").ParseFS(units, form)
	if err == nil {
		err = t.Execute(&text, values)
	}
	if err != nil {
		err = fmt.Errorf("unit %s: %w", name, err)
	}
	return File{Name: name, Content: text.Bytes(), Mode: 0o644}, err
}

// values are what the templates refer to.
type values struct {
	Params
	Name, Does, Documentation          string
	Service, Socket, Retry, JobService string
	Job                                *Job
	Jails                              bool   // child processes are confined
	Command                            string // of the job, in words
	TokenEnv, TokenFileEnv             string // variables for the job
	Streams                            []string
	StateDirectory                     string // relative to /var/lib; "": DataDir is elsewhere
	ConfigurationDirectory             string // relative to /etc; "": Config is elsewhere
}

// below returns name relative to top, "" if it is not below top.
func below(top, name string) string {
	rest, ok := strings.CutPrefix(name, top+"/")
	if !ok {
		return ""
	}
	return rest
}

func (p Params) withDefaults(of Program) Params {
	p.Run = cmp.Or(p.Run, of.Commands()[0])
	p.Binary = cmp.Or(p.Binary, of.Binary())
	p.Config = cmp.Or(p.Config, of.Config())
	p.EnvFile = cmp.Or(p.EnvFile, of.EnvFile())
	p.TokenFile = cmp.Or(p.TokenFile, path.Join(path.Dir(p.Config), TokenName))
	p.DataDir = cmp.Or(p.DataDir, of.DataDir())
	p.User = cmp.Or(p.User, of.User())
	p.Group = cmp.Or(p.Group, p.User)
	if len(p.Listen) == 0 {
		p.Listen = []string{"127.0.0.1:8000"}
	}
	return p
}
