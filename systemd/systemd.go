// Package systemd renders the unit files that make urifilter a service: the daemon, its
// socket, the timer that tries again after a crash loop, and the monthly writeback with
// its timer. The files beside this one are the units, with what differs between hosts
// left open.
//
// It writes no file and starts no program: `urifilter service` does.
package systemd

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"text/template"
)

// Names of the units.
const (
	Service        = "urifilter.service"
	Socket         = "urifilter.socket"
	Retry          = "urifilter-retry.timer"
	Writeback      = "urifilter-writeback.service"
	WritebackTimer = "urifilter-writeback.timer"
)

// Dir is where units belong that neither a package nor the system wrote.
const Dir = "/etc/systemd/system"

// Params are what differs between hosts. Zero fields take the defaults.
type Params struct {
	// Binary is the program. Default /opt/urifilter/current/urifilter: a link in this
	// path is followed at each start, so that a release is switched by it.
	Binary string
	// Config is the file of settings. Default /etc/urifilter/urifilter.yaml.
	Config string
	// EnvFile holds variables of the environment, one NAME=value a line; it need not
	// exist. Default /etc/urifilter/urifilter.env.
	EnvFile string
	// TokenFile holds, alone, the token by which the writeback calls the daemon; it need
	// not exist. Default operator.token beside Config.
	TokenFile string
	// DataDir is data_dir of the settings. Under /var/lib systemd makes it; elsewhere it
	// must exist and belong to User. Not under /home, /root, /run/user, /tmp or /var/tmp,
	// which the daemon does not see. Default /var/lib/urifilter.
	DataDir string
	// User and Group run the daemon; they must exist, and are not root. Default urifilter;
	// Group is User where User alone is given.
	User, Group string
	// Listen are the host:port to be called at, as in listen of the settings; the host is
	// an IP address, localhost, or empty for every address. Default 127.0.0.1:8000.
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

// Render returns all units, sorted by name. The error is that of Validate.
func Render(p Params) ([]File, error) {
	p = p.withDefaults()
	if err := p.Validate(); err != nil {
		return nil, err
	}
	v := values{
		Params: p, Service: Service, Socket: Socket, Retry: Retry, Writeback: Writeback,
		StateDirectory: below("/var/lib", p.DataDir), ConfigurationDirectory: below("/etc", path.Dir(p.Config)),
	}
	for _, l := range p.Listen {
		stream, err := listenStream(l)
		if err != nil {
			return nil, err
		}
		v.Streams = append(v.Streams, stream)
	}
	names, err := fs.Glob(units, "*")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		form, err := template.New(name).Option("missingkey=error").ParseFS(units, name)
		if err != nil {
			return nil, fmt.Errorf("unit %s: %w", name, err)
		}
		var text bytes.Buffer
		if err := form.Execute(&text, v); err != nil {
			return nil, fmt.Errorf("unit %s: %w", name, err)
		}
		files = append(files, File{Name: name, Content: text.Bytes(), Mode: 0o644})
	}
	return files, nil
}

// values are what the forms refer to.
type values struct {
	Params
	Service, Socket, Retry, Writeback string
	Streams                           []string
	StateDirectory                    string // relative to /var/lib; "": DataDir is elsewhere
	ConfigurationDirectory            string // relative to /etc; "": Config is elsewhere
}

// below is name relative to top, "" when it is not below it.
func below(top, name string) string {
	rest, ok := strings.CutPrefix(name, top+"/")
	if !ok {
		return ""
	}
	return rest
}

func (p Params) withDefaults() Params {
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&p.Binary, "/opt/urifilter/current/urifilter")
	set(&p.Config, "/etc/urifilter/urifilter.yaml")
	set(&p.EnvFile, "/etc/urifilter/urifilter.env")
	set(&p.TokenFile, path.Join(path.Dir(p.Config), "operator.token"))
	set(&p.DataDir, "/var/lib/urifilter")
	set(&p.User, "urifilter")
	set(&p.Group, p.User)
	if len(p.Listen) == 0 {
		p.Listen = []string{"127.0.0.1:8000"}
	}
	return p
}
