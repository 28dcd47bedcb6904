package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/downloads"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// server is a daemon or null handler under measurement. It ends with the part, if not before.
type server struct {
	addr string
	null bool
	cmd  *exec.Cmd
	dir  string
}

func startServer(s settings, kind string, env ...string) (*server, error) {
	srv := &server{addr: testserver.Free(s.stand), null: kind == "null handler", dir: filepath.Join(s.dir, "data")}
	if srv.null {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		srv.cmd = exec.Command(self, nullServerArg, srv.addr)
	} else {
		srv.cmd = exec.Command(s.binary, "serve", "--listen", srv.addr, "--data-dir", srv.dir, "--durability", kind, "--log-level", "warn")
		srv.cmd.Env = append(append(os.Environ(), `URIFILTER_FILTERS=[{id: 1, name: uri}]`), env...)
	}
	srv.cmd.Stderr = os.Stderr
	if err := srv.cmd.Start(); err != nil {
		return nil, err
	}
	s.stand.Cleanup(func() { _ = srv.end(syscall.SIGKILL) }) // unless it was stopped
	testserver.AwaitReady(s.stand, "http://"+srv.addr)
	return srv, nil
}

// stop ends the server gracefully and removes its data.
func (s *server) stop() error {
	if err := s.end(syscall.SIGTERM); err != nil && !s.null {
		return err
	}
	return os.RemoveAll(s.dir)
}

func (s *server) end(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// emptyFilter drops filter uri and makes it as an empty bloom filter of that capacity.
func (s *server) emptyFilter(capacity int) error {
	return s.remake(fmt.Sprintf(`{"id":1,"kind":"bloom","capacity":%d,"error_rate":%v}`, capacity, errorRate))
}

// remake drops filter uri and makes it as spec says.
func (s *server) remake(spec string) error {
	if s.null {
		return nil
	}
	url := "http://" + s.addr + "/api/v1/filters/uri"
	if err := downloads.Call(http.MethodDelete, url+"?confirm=uri", "", "", nil); err != nil {
		return err
	}
	return downloads.Call(http.MethodPut, url, "application/json", spec, nil)
}

// cpuTime is the processor time that a process has used.
type cpuTime struct{ user, system time.Duration }

func (t cpuTime) all() time.Duration { return t.user + t.system }

func (t cpuTime) since(before cpuTime) cpuTime {
	return cpuTime{t.user - before.user, t.system - before.system}
}

// cpu returns the processor time that the server has used so far; 0 if the system has no /proc.
func (s *server) cpu() cpuTime {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return cpuTime{}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all processors that Go knows
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return cpuTime{time.Duration(user) * tick, time.Duration(system) * tick}
}
