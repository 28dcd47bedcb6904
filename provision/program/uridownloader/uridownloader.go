// Package uridownloader describes the downloader to the toolkit. Nothing else in the toolkit
// knows this program by its name, except the names of targets.
package uridownloader

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/systemd"
)

// The roles of its hosts.
const (
	// RoleDownloader is that of a host on which one process accepts jobs, hands them out and
	// downloads, with a store of its own.
	RoleDownloader = "downloader"
	// RoleMaster accepts jobs and hands them out, RoleWorker downloads. They share a database.
	RoleMaster = "master"
	RoleWorker = "worker"
)

// Program returns the downloader. It has no job for a crontab: a dispatcher always runs, in the
// process of the master, because what the master accepts is then handed out at once.
func Program() program.Program {
	return program.Program{
		Program: systemd.Uridownloader(), Roles: []string{RoleDownloader, RoleMaster, RoleWorker}, Single: []string{RoleMaster}, Section: inventory.SectionDownloader, Package: "./daemon/uridownloader",
		Parse: reading(), On: on, Ready: "/readyz", Scopes: downloader.Scopes(), TokenScopes: downloader.Scopes(), Caller: "submit",
	}
}

// on returns what hosts with some of the roles run.
func on(roles []string) (program.Variant, error) {
	has := func(role string) bool { return slices.Contains(roles, role) }
	shared := program.Servers{Redis: true, MongoDB: true, Store: "mongodb", Filter: true}
	switch {
	case has(RoleDownloader) && len(roles) > 1:
		return program.Variant{Run: "serve", Parse: reading()}, fmt.Errorf("%s is all of it in one process, with a store of its own: want it without %s and %s", RoleDownloader, RoleMaster, RoleWorker)
	case has(RoleMaster) && has(RoleWorker): // one process, beside workers on other hosts
		return program.Variant{Run: "serve", Parse: reading(share), Servers: shared}, nil
	case has(RoleMaster):
		return program.Variant{Run: "master --dispatch", Parse: reading(share, master), Servers: shared}, nil
	case has(RoleWorker):
		return program.Variant{Run: "worker", Parse: reading(share, work), Servers: shared}, nil
	}
	return program.Variant{Run: "serve", Parse: reading()}, nil
}

// reading returns a function that reads the settings of all roles in one process, and then says how a process differs from that.
func reading(differs ...func(*program.Settings, downloader.Config)) func(name string, text []byte) (program.Settings, error) {
	return func(name string, text []byte) (program.Settings, error) {
		c, err := downloader.Parse(name, text)
		if err != nil {
			return program.Settings{}, err
		}
		s := program.Settings{
			Validate: c.Validate, Listen: c.Listen, URL: c.URL(), DataDir: c.DataDir, TokensFile: c.Auth.TokensFile,
			Reread:   []string{c.TLS.CertFile, c.TLS.KeyFile},
			AtStart:  []string{c.Redis.PasswordFile, c.MongoDB.URIFile, c.Filter.TokenFile, c.Report.WebhookTokenFile, c.Report.MailPasswordFile},
			Packages: append(python(c), chromium(c)...),
			Ask:      askMaster,
			AskOnHost: func(ctx context.Context, h host.Host, path, token string) error {
				return askOnHost(ctx, h, path, c.URL(), token)
			},
		}
		for _, change := range differs {
			change(&s, c)
		}
		return s, nil
	}
}

// python returns the package of the Python that the settings name, if it is Debian's. A master
// uses it to compile what workers run.
func python(c downloader.Config) []string {
	if c.Script.Python == "/usr/bin/python3" {
		return []string{"python3"}
	}
	return nil
}

// chromium returns the package of the browser that the settings require.
func chromium(c downloader.Config) []string {
	if c.Browser.Required && c.Browser.Path == "" {
		return []string{"chromium-headless-shell"}
	}
	return nil
}

// master is for one that downloads nothing.
func master(s *program.Settings, c downloader.Config) { s.Packages = python(c) }

// share is for a process that shares its store with others.
func share(s *program.Settings, c downloader.Config) {
	s.Database, s.PlainRedis = c.MongoDB.Database, len(c.Redis.Addrs) > 0 && !c.Redis.TLS
	s.Validate = func() error { return errors.Join(c.Validate(), shares(c)) }
}

// work is for a worker, which callers ask for nothing but its health.
func work(s *program.Settings, c downloader.Config) {
	s.Listen, s.URL = c.Worker.Listen, address.URL(c.TLS.CertFile != "", c.Worker.Listen)
	s.Ask = nil // it is ready when it reaches the store
	s.AskOnHost = func(ctx context.Context, h host.Host, _, _ string) error {
		return readyOnHost(ctx, h, c.Worker.Listen, c.TLS.CertFile != "")
	}
}

// shares returns what is missing from the settings of a process that shares its store with others.
func shares(c downloader.Config) error {
	var faults []error
	if c.Store != "mongodb" {
		faults = append(faults, fmt.Errorf("store: %q: want mongodb, where a master and its workers find each other's tasks\nhint: give a host the role mongodb, or name a server in mongodb.uri of the inventory", c.Store))
	}
	if c.Filter.URL == "" {
		faults = append(faults, errors.New("filter.url: \"\": want the filter that a master and its workers ask\nhint: give a host the role filter, or name a daemon in filter.url"))
	}
	return errors.Join(faults...)
}

// nobody returns the name of a job that does not exist. The master looks into its store for it,
// which costs nothing however many jobs and tasks there are.
func nobody() string { return "toolkit-probe-" + strings.ToLower(rand.Text()) }

// unknown is the master's error code for a job that its store does not have.
const unknown = "unknown_job"

// askMaster makes the master look into its store.
func askMaster(ctx context.Context, d program.Daemon) error {
	path := "/api/v1/jobs/" + nobody()
	a, err := d.Call(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	err = a.Problem("GET " + path)
	if told, is := errors.AsType[*program.Problem](err); is && told.Code == unknown {
		return nil
	}
	return err
}

// askOnHost does the same with the release's own command line.
func askOnHost(ctx context.Context, h host.Host, path, url, token string) error {
	script := fmt.Sprintf("read -r URIDOWNLOADER_TOKEN; export URIDOWNLOADER_TOKEN\nexec timeout 10 %s job show -s %s %s",
		host.Quote(path), host.Quote(url), nobody())
	_, err := h.Run(ctx, host.Command{Script: script, Stdin: bytes.NewReader([]byte(token + "\n"))})
	var failed *host.CommandError
	switch {
	case err == nil:
		return errors.New("uridownloader job show has found a job that nobody has made")
	case errors.As(err, &failed) && strings.Contains(failed.Output.Stderr, unknown):
		return nil
	}
	return err
}

// readyOnHost asks a worker whether it is ready, with tools that hosts have. As through a tunnel, its certificate may be
// for another name.
func readyOnHost(ctx context.Context, h host.Host, listen string, encrypted bool) error {
	name, port, err := net.SplitHostPort(address.Reachable(listen))
	if err != nil {
		return err
	}
	const request = `printf 'GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n'`
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s && %s >&3 && cat <&3", name, port, request)
	if encrypted {
		script = fmt.Sprintf("%s | openssl s_client -quiet -connect %s", request, net.JoinHostPort(name, port))
	}
	out, err := h.Run(ctx, host.Command{Script: "timeout 10 bash -c " + host.Quote(script)})
	if err == nil && !strings.Contains(out.Stdout, " 200 ") {
		err = fmt.Errorf("GET /readyz: %s", strings.Join(strings.Fields(out.Stdout), " "))
	}
	return err
}
