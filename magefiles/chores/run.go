package chores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/configs/address"
)

const defaultListen = "127.0.0.1:8000"

// Run builds the program and serves on listen ("": 127.0.0.1:8000) until it is
// stopped, with its data in .run/data of the tree.
func (r Repo) Run(ctx context.Context, listen string) error {
	if listen == "" {
		listen = defaultListen
	}
	if err := free(ctx, listen); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.Dir, binary())); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(r.Out, "building %s from the sources here: the first time takes some minutes on a slow machine\n", filepath.ToSlash(binary()))
	}
	if err := r.Build(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "starting %s on %s, with its data in .run/data\n", filepath.ToSlash(binary()), listen)
	program, err := filepath.Abs(filepath.Join(r.Dir, binary()))
	if err != nil {
		return err
	}
	// Not the context of the target, which ends with Ctrl-C: it would kill the
	// daemon in the middle of its orderly stop.
	daemon := r.command(context.Background(), nil, program,
		"serve", "--data-dir", filepath.Join(".run", "data"), "--listen", listen)
	daemon.Stderr = os.Stderr
	waiting, answered := context.WithCancel(ctx)
	said := make(chan struct{})
	go func() {
		defer close(said)
		if ready(waiting, listen) {
			fmt.Fprint(r.Out, callsToTry(listen))
		}
	}()
	err = foreground(daemon, time.Second)
	answered()
	<-said
	if err != nil {
		return fmt.Errorf("urifilter serve: %w", err)
	}
	return nil
}

// free says why listen cannot be had, nil if it can.
func free(ctx context.Context, listen string) error {
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
		by = "a urifilter that is ready to serve: it may have been started already"
	}
	return fmt.Errorf("%s is in use by %s\nhint: stop it, or choose another address: URIFILTER_LISTEN=127.0.0.1:8001 go tool mage run", listen, by)
}

// ready waits until the daemon serves; false when ctx ended first.
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address.Reachable(listen)+"/readyz", nil)
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

// callsToTry is what the newcomer pastes into a second terminal.
func callsToTry(listen string) string {
	at := address.Reachable(listen)
	server := ""
	if at != defaultListen {
		server = " --server http://" + at
	}
	return fmt.Sprintf(`
urifilter is ready on http://%[1]s; Ctrl-C stops it. Try, in another terminal:

  curl -d '{"filter_typeid":1,"uri_list":["https://www.baidu.com/","http://www.2cto.com","https://www.baidu.com/"]}' %[1]s/api/v1/filter

  printf 'http://a.example/\nhttp://b.example/\nhttp://a.example/\n' | %[2]s filter --type uri_generator%[3]s

The first run of each prints two items, a second run none: they have been seen.

`, at, filepath.ToSlash(binary()), server)
}
