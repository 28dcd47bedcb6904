//go:build mage

// The comments of targets and flags are their help: go tool mage -h deploy.
//mage:multiline

package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/magefiles/calls"
	"github.com/cr-clawer/urifilter/magefiles/chores"
	"github.com/cr-clawer/urifilter/provision"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
)

// Aliases are short names of targets, names that Go does not allow, and the names of the
// fabric tasks that the targets replace.
var Aliases = map[string]interface{}{
	"bench:load":                      BenchLoad,
	"run:downloader":                  RunDownloader,
	"bench:compare":                   BenchCompare,
	"downloader:get":                  Uridownloader.Get,
	"downloader:start":                Uridownloader.Start,
	"downloader:stop":                 Uridownloader.Stop,
	"downloader:restart":              Uridownloader.Restart,
	"downloader:status":               Uridownloader.Status,
	"downloader:logs":                 Uridownloader.Logs,
	"downloader:releases":             Uridownloader.Releases,
	"downloader:rollback":             Uridownloader.Rollback,
	"bitmap_init":                     Bitmap.Init,
	"bitmap_update":                   Bitmap.Update,
	"bitmap_wrback_start":             Bitmap.WritebackStart,
	"bitmap_wrback_stop":              Bitmap.WritebackStop,
	"urifilter_get":                   Urifilter.Get,
	"urifilter_start":                 Urifilter.Start,
	"urifilter_stop":                  Urifilter.Stop,
	"urifilter_restart":               Urifilter.Restart,
	"install_settings":                Install.Settings,
	"install_env":                     Install.Env,
	"install_redis":                   Install.Redis,
	"install_mongodb":                 Install.Mongodb,
	"install_django":                  Install.Service,
	"install_all":                     Install.All,
	"setting_urifilter":               Settings.Check,
	"update_urifilter_setting_remote": Settings.Push,
	"update":                          Settings.Update,
}

// sources are what mage compiles this program from; the reader of calls finds the targets and their flags in them.
//
//go:embed *.go
var sources embed.FS

// init reads the command line before mage does, which knows no shared flags.
func init() {
	words, help, err := calls.Compiled(sources, os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2)
	}
	if help != "" {
		fmt.Print(help)
		os.Exit(0)
	}
	os.Args = words
}

// options adds the shared flags of a call to a target's own; they have the names of fields, in other case.
func options(shared *string, own provision.Options) (provision.Options, error) {
	var given struct {
		provision.Options
		V *bool
	}
	given.Options = own
	given.Verbose, given.Build, given.Revision = mg.Verbose(), build, repo().Revision()
	if shared == nil {
		return given.Options, nil
	}
	err := json.Unmarshal([]byte(*shared), &given)
	given.Verbose = valueOr(given.V, given.Verbose)
	return given.Options, err
}

// build compiles the program for servers from the sources here.
func build(ctx context.Context, p program.Program, arch string) (release.Built, error) {
	out := filepath.Join("dist", p.File(arch))
	content, err := chores.Repo{Dir: ".", Out: os.Stderr}.BuildRelease(ctx, p.Package, arch, out)
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w\nhint: without Go, give a ready program: -binary=%s", err, p.File("{arch}"))
	}
	return release.Built{Path: out, Content: content}, err
}

// with opens the toolkit, calls do with it, and turns the error into an exit code.
func with(shared *string, own provision.Options, do func(*provision.Toolkit) error) error {
	all, err := options(shared, own)
	if err != nil {
		return coded(err)
	}
	toolkit, err := provision.Open(all)
	if err != nil {
		return coded(err)
	}
	err = do(toolkit)
	if failed := toolkit.Close(); failed != nil {
		err = errors.Join(err, failed)
	}
	return coded(err)
}

// coded gives an error the exit code that package fleet documents. If the report of a run has
// shown the error, coded exits at once, or mage would show it a second time.
func coded(err error) error {
	if err == nil {
		return nil
	}
	if only, ok := err.(*fleet.Error); ok && only.Told {
		os.Exit(only.Code)
	}
	code := fleet.Code(err)
	if terminal.Is(os.Stderr) {
		err = errors.New(terminal.Text(err.Error())) // mage prints it as it is
	}
	return mg.Fatal(code, err)
}
