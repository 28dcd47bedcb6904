// Package uridownloader describes the downloader to the toolkit. Nothing else of the toolkit
// knows this program by its name, but for the names of targets.
package uridownloader

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/systemd"
)

// RoleDownloader is that of hosts on which one process takes jobs in, hands them out and
// downloads.
const RoleDownloader = "downloader"

// Program is the downloader. It has no job for a crontab: its dispatcher always runs.
func Program() program.Program {
	return program.Program{
		Program: systemd.Uridownloader(), Roles: []string{RoleDownloader}, Section: inventory.SectionDownloader, Package: "./daemon/uridownloader",
		Parse: parse, Ready: "/readyz", Scopes: downloader.Scopes(), TokenScopes: downloader.Scopes(), Caller: "submit",
	}
}

func parse(name string, text []byte) (program.Settings, error) {
	c, err := downloader.Parse(name, text)
	if err != nil {
		return program.Settings{}, err
	}
	return program.Settings{
		Validate: c.Validate, Listen: c.Listen, URL: c.URL(), DataDir: c.DataDir, TokensFile: c.Auth.TokensFile,
		Reread: []string{c.TLS.CertFile, c.TLS.KeyFile},
		Ask:    ask,
		AskOnHost: func(ctx context.Context, h host.Host, path, token string) error {
			return askOnHost(ctx, h, path, c.URL(), token)
		},
	}, nil
}

// nobody is a job that there is not. The master looks into its store for it, which costs
// nothing however many jobs and tasks there are.
func nobody() string { return "toolkit-probe-" + strings.ToLower(rand.Text()) }

// unknown is the master's word for a job that its store does not have.
const unknown = "unknown_job"

// ask wants the master to look into its store.
func ask(ctx context.Context, d program.Daemon) error {
	path := "/api/v1/jobs/" + nobody()
	a, err := d.Call(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	err = a.Problem("GET " + path)
	var told *program.Problem
	if errors.As(err, &told) && told.Code == unknown {
		return nil
	}
	return err
}

// askOnHost does the same by the release's own command line.
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
