package chores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/configs/address"
)

// served is a program that Run starts.
type served struct {
	name, pkg, listen string // listen: the default
	variable          string // of the environment, which overrides listen
	try               func(at, server string) string
}

// binary returns the path of the built program, relative to the tree.
func (p served) binary() string {
	if runtime.GOOS == "windows" {
		return filepath.Join("dist", p.name+".exe")
	}
	return filepath.Join("dist", p.name)
}

func filterProgram() served {
	return served{name: "urifilter", pkg: daemon, listen: "127.0.0.1:8000", variable: "URIFILTER_LISTEN", try: filterCalls}
}

func downloaderProgram() served {
	return served{name: "uridownloader", pkg: "./daemon/uridownloader", listen: "127.0.0.1:8001", variable: "URIDOWNLOADER_LISTEN", try: downloaderCalls}
}

// Run builds the filter and serves on listen ("": 127.0.0.1:8000) until it is stopped, with its
// data in .run/data of the tree.
func (r Repo) Run(ctx context.Context, listen string) error {
	return r.serve(ctx, filterProgram(), filepath.Join(".run", "data"), listen)
}

// RunDownloader builds the downloader and serves on listen ("": 127.0.0.1:8001) until it is
// stopped, with its data in .run/downloader of the tree.
func (r Repo) RunDownloader(ctx context.Context, listen string) error {
	return r.serve(ctx, downloaderProgram(), filepath.Join(".run", "downloader"), listen)
}

func (r Repo) serve(ctx context.Context, p served, data, listen string) error {
	listen = cmp.Or(listen, p.listen)
	if err := free(ctx, p, listen); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.Dir, p.binary())); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(r.Out, "building %s from the sources here: the first time takes some minutes on a slow machine\n", filepath.ToSlash(p.binary()))
	}
	if err := r.BuildFor(ctx, p.pkg, runtime.GOOS, runtime.GOARCH, p.binary()); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "starting %s on %s, with its data in %s\n", filepath.ToSlash(p.binary()), listen, filepath.ToSlash(data))
	program, err := filepath.Abs(filepath.Join(r.Dir, p.binary()))
	if err != nil {
		return err
	}
	// Not the context of the target, which ends with Ctrl-C: it would kill the
	// daemon in the middle of its orderly stop.
	daemon := r.command(context.Background(), nil, program, "serve", "--data-dir", data, "--listen", listen)
	daemon.Stderr = os.Stderr
	waiting, answered := context.WithCancel(ctx)
	said := make(chan struct{})
	go func() {
		defer close(said)
		if ready(waiting, listen) {
			fmt.Fprint(r.Out, p.calls(listen))
		}
	}()
	err = foreground(daemon, time.Second)
	answered()
	<-said
	if err != nil {
		return fmt.Errorf("%s serve: %w", p.name, err)
	}
	return nil
}

// free returns an error that says why listen cannot be used, nil if it can.
func free(ctx context.Context, p served, listen string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", listen)
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	by := "another program"
	if answersReady(ctx, listen) {
		by = "a " + p.name + " that is ready to serve: it may have been started already"
	}
	target := "run"
	if p.name != filterProgram().name {
		target = "run:downloader"
	}
	return fmt.Errorf("%s is in use by %s\nhint: stop it, or choose another address: %s=127.0.0.1:8005 go tool mage %s", listen, by, p.variable, target)
}

// ready waits until the daemon serves; it returns false if ctx ends first.
func ready(ctx context.Context, listen string) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !answersReady(ctx, listen) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func answersReady(ctx context.Context, listen string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.URL(false, listen)+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// calls returns what a newcomer pastes into a second terminal.
func (p served) calls(listen string) string {
	at, server := address.Reachable(listen), ""
	if at != p.listen {
		server = " --server " + address.URL(false, listen)
	}
	return fmt.Sprintf("\n%s is ready on %s; Ctrl-C stops it. Try, in another terminal:\n%s\n", p.name, address.URL(false, listen), p.try(at, server))
}

func filterCalls(at, server string) string {
	return fmt.Sprintf(`
  curl -d '{"filter_typeid":1,"uri_list":["https://www.baidu.com/","http://www.2cto.com","https://www.baidu.com/"]}' %[1]s/api/v1/filter

  printf 'http://a.example/\nhttp://b.example/\nhttp://a.example/\n' | %[2]s filter --filter uri_generator%[3]s

The first run of each prints two items, a second run none: they have been seen.
`, at, filepath.ToSlash(filterProgram().binary()), server)
}

func downloaderCalls(_, server string) string {
	return fmt.Sprintf(`
  printf 'name: first\nuris: [https://example.com/, https://www.iana.org/]\n' > first.yaml
  %[1]s job add%[2]s first.yaml
  %[1]s job show%[2]s first
  %[1]s data%[2]s first
`, filepath.ToSlash(downloaderProgram().binary()), server)
}
