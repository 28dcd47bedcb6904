//go:build linux

// Command broken is a release of urifilter that is broken in a way that tests choose. It
// is the real program in all but serve: the real one's bytes are appended to its own, and
// it runs them. See Broken in package programs.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// trailer ends the file: the size of the real program, and the mode, padded with blanks.
const trailer = 8 + 16

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "broken release:", err)
		os.Exit(1)
	}
}

func run() error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	info, err := self.Stat()
	if err != nil {
		return err
	}
	end := make([]byte, trailer)
	if _, err := self.ReadAt(end, info.Size()-trailer); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint64(end))
	if len(os.Args) < 2 || !slices.Contains([]string{"serve", "master", "worker"}, os.Args[1]) {
		return execute(io.NewSectionReader(self, info.Size()-trailer-size, size))
	}
	return serve(strings.TrimSpace(string(end[8:])))
}

// execute replaces this process with the real program.
func execute(program io.Reader) error {
	fd, err := unix.MemfdCreate("urifilter", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	memory := os.NewFile(uintptr(fd), "urifilter")
	if _, err := io.Copy(memory, program); err != nil {
		return err
	}
	return unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), os.Args, os.Environ())
}

func serve(mode string) error {
	switch mode {
	case "exit":
		return says("I exit at once, as the test wants it")
	case "silent": // it never says that it is ready
		time.Sleep(time.Hour)
	}
	listener, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		return err
	}
	if err := notify("READY=1"); err != nil {
		return err
	}
	go func() {
		for range time.Tick(5 * time.Second) {
			if err := notify("WATCHDOG=1"); err != nil {
				os.Exit(1)
			}
		}
	}()
	switch mode {
	case "500":
		return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "I answer 500, as the test wants it", http.StatusInternalServerError)
		}))
	case "forgetful": // ready, and everything is new each time
		return http.Serve(listener, answers(func(string) bool { return false }))
	case "brief": // it dies after a check has found it healthy, and before it has been watched for long enough
		var seen sync.Map
		asked := make(chan struct{}) // closed when an item has come a second time
		askedAgain := sync.OnceFunc(func() { close(asked) })
		go func() {
			_ = http.Serve(listener, answers(func(list string) bool {
				_, known := seen.LoadOrStore(list, true)
				if known {
					askedAgain()
				}
				return known
			}))
		}()
		<-asked
		time.Sleep(8 * time.Second)
		return says("I have answered for a while and exit, as the test wants it")
	case "hang": // it accepts calls and never answers
		for {
			if _, err := listener.Accept(); err != nil {
				return err
			}
		}
	case "late": // it dies after a check has seen it up
		time.Sleep(2 * time.Second)
		return says("I exit a little later, as the test wants it")
	}
	return fmt.Errorf("mode %q: no such way to be broken", mode)
}

// answers serves as the real program does, as far as a check goes. known tells whether a list of items was sent before.
func answers(known func(list string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			fmt.Fprintln(w, "ready")
			return
		}
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPut { // the filter of the check is made
			return
		}
		_, list, _ := strings.Cut(string(body), `"uri_list":`)
		if known(list) {
			list = "[]}"
		}
		fmt.Fprintf(w, `{"uri_list":%s,"total":1,"duplicates":0}`, strings.TrimSuffix(list, "}"))
	})
}

func notify(state string) error {
	_, err := daemon.SdNotify(false, state)
	return err
}

// says is an error in the program's own voice.
type says string

func (s says) Error() string { return string(s) }
