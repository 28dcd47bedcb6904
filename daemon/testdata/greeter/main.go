// Command greeter is a second program of ours, for tests: a daemon that says hello. It
// shows that the chassis of programs, the units and the toolkit work for any program, not
// only for the filter.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/service"
	"github.com/cr-clawer/urifilter/systemd"
)

// broken is set by the linker. Unless it is "", the daemon is never ready.
var broken string

func greeter() systemd.Program {
	return systemd.Program{
		Name: "greeter", Does: "says hello", Documentation: "https://example.com/greeter",
		Job: &systemd.Job{Name: "cleanup", Does: "forget whom it has greeted", Args: []string{"forget"}},
	}
}

type settings struct {
	Listen  string `yaml:"listen"`
	DataDir string `yaml:"data_dir"`
	Hello   string `yaml:"hello"`
}

func read(file string) (settings, error) {
	s := settings{Listen: "127.0.0.1:8700", DataDir: greeter().DataDir(), Hello: "hello"}
	if err := (strict.Source{Prefix: "GREETER_"}).Read(file, os.Environ(), &s); err != nil {
		return s, err
	}
	if s.Hello == "" {
		return s, errors.New(`hello: "": want a word`)
	}
	return s, nil
}

func main() {
	ctx, stop := command.WithSignals(context.Background())
	defer stop()
	root := &cobra.Command{Use: "greeter", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(command.NewVersion("greeter"), newServe(), newForget(), newConfig(), service.NewCommand(service.Settings{
		Program: greeter(), Default: greeter().Config(), Find: func(flag string) string { return flag },
		Read: func(file, _ string) (systemd.Params, error) {
			s, err := read(file)
			return systemd.Params{DataDir: s.DataDir, Listen: []string{s.Listen}}, err
		},
	}))
	code := command.Run(ctx, root, command.Line{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

func newConfig() *cobra.Command {
	parent := &cobra.Command{Use: "config"}
	command.Parent(parent)
	var file string
	check := &cobra.Command{Use: "check", RunE: func(*cobra.Command, []string) error {
		_, err := read(file)
		return err
	}}
	check.Flags().StringVar(&file, "config", "", "")
	parent.AddCommand(check)
	return parent
}

func newForget() *cobra.Command {
	var file string
	cmd := &cobra.Command{Use: "forget", RunE: func(*cobra.Command, []string) error {
		s, err := read(file)
		if err != nil {
			return err
		}
		names, err := os.ReadDir(s.DataDir)
		for _, name := range names {
			err = errors.Join(err, os.Remove(filepath.Join(s.DataDir, name.Name())))
		}
		return err
	}}
	cmd.Flags().StringVar(&file, "config", "", "")
	return cmd
}

func newServe() *cobra.Command {
	var file string
	cmd := &cobra.Command{Use: "serve", RunE: func(cmd *cobra.Command, _ []string) error {
		s, err := read(file)
		if err != nil {
			return err
		}
		return serve(cmd.Context(), s)
	}}
	cmd.Flags().StringVar(&file, "config", "", "")
	return cmd
}

func serve(ctx context.Context, s settings) error {
	signal.Ignore(syscall.SIGHUP) // there is nothing to reload
	sockets, _, err := listen.Open(listen.Options{Program: "greeter", Address: s.Listen, Log: slog.Default()})
	if err != nil {
		return err
	}
	if len(sockets) != 1 {
		return fmt.Errorf("systemd has handed over %d ports: want one", len(sockets))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /up", func(w http.ResponseWriter, _ *http.Request) {
		if broken != "" {
			http.Error(w, broken, http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if err := os.WriteFile(filepath.Join(s.DataDir, name), nil, 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%s %s", s.Hello, name)
	})
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	defer stopped()
	lifecycle.Notify(lifecycle.Ready, lifecycle.Status("says %s", s.Hello))
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { lifecycle.PingWatchdog(ctx, func() {}, slog.New(slog.DiscardHandler)) })
	if err := server.Serve(sockets[0]); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	lifecycle.Notify(lifecycle.Stopping)
	return nil
}
