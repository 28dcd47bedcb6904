package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// overHTTP measures the filter call with 1, 4 and 16 connections for each durability,
// beside a handler that reads the body and answers as many bytes.
func overHTTP(s settings) error {
	t := report.Table{{"server", "connections", "items/s", "of the null handler", "p50", "p99"}}
	null := map[int]float64{}
	for _, server := range []string{"null handler", "none", "interval", "always"} {
		daemon, err := startServer(s, server)
		if err != nil {
			return err
		}
		for _, conns := range []int{1, 4, 16} {
			var rates []float64
			var p50s, p99s []time.Duration
			for range s.runs {
				if err := daemon.emptyFilter(10_000_000); err != nil {
					return err
				}
				m, err := drive(daemon.addr, conns, batch/2, s.duration)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", server, conns, err)
				}
				rates = append(rates, m.rate)
				p50s, p99s = append(p50s, m.p50), append(p99s, m.p99)
			}
			rate := report.Median(rates)
			name := "urifilter, durability " + server
			if daemon.null {
				null[conns], name = rate, server
			}
			t.Row(name, fmt.Sprint(conns), report.Million(rate), fmt.Sprintf("%.0f %%", rate/null[conns]*100), report.Milliseconds(report.Median(p50s)), report.Milliseconds(report.Median(p99s)))
		}
		if err := daemon.stop(); err != nil {
			return err
		}
	}
	t.Print("HTTP JSON: client and server on this machine, 66-byte URLs, batches of 1,000, half duplicates, capacity 10 M at 0.0001")
	return nil
}

// server is a daemon or null handler under measurement.
type server struct {
	addr string
	null bool
	cmd  *exec.Cmd
	dir  string
}

func startServer(s settings, kind string, env ...string) (*server, error) {
	srv := &server{null: kind == "null handler", dir: filepath.Join(s.dir, "data")}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	srv.addr = addr
	if srv.null {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		srv.cmd = exec.Command(self, nullServerArg, addr)
	} else {
		srv.cmd = exec.Command(s.binary, "serve", "--listen", addr, "--data-dir", srv.dir, "--durability", kind, "--log-level", "warn")
		srv.cmd.Env = append(append(os.Environ(), `URIFILTER_FILTERS=[{id: 1, name: uri}]`), env...)
	}
	srv.cmd.Stderr = os.Stderr
	if err := srv.cmd.Start(); err != nil {
		return nil, err
	}
	if err := srv.waitReady(); err != nil {
		_ = srv.cmd.Process.Kill()
		return nil, err
	}
	return srv, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *server) waitReady() error {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		resp, err := http.Get("http://" + s.addr + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the server at %s is not ready after 30 s", s.addr)
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

// emptyFilter drops filter uri and makes it again.
func (s *server) emptyFilter(capacity int) error {
	return s.remake(fmt.Sprintf(`{"id":1,"kind":"bloom","capacity":%d,"error_rate":%v}`, capacity, errorRate))
}

// remake drops filter uri and makes it as spec says.
func (s *server) remake(spec string) error {
	if s.null {
		return nil
	}
	for _, c := range []struct{ method, path, body string }{
		{http.MethodDelete, "/api/v1/filters/uri?confirm=uri", ""},
		{http.MethodPut, "/api/v1/filters/uri", spec},
	} {
		req, err := http.NewRequestWithContext(context.Background(), c.method, "http://"+s.addr+c.path, bytes.NewBufferString(c.body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("%s %s: %s: %s", c.method, c.path, resp.Status, text)
		}
	}
	return nil
}

type measured struct {
	rate     float64 // items a second
	p50, p99 time.Duration
}

// drive sends batches over so many connections until the time is over.
func drive(addr string, conns, fresh int, duration time.Duration) (measured, error) {
	return driveBy(dial, addr, conns, fresh, duration)
}

// driveBy is drive with clients that dial makes.
func driveBy(dial func(addr string, from uint64, fresh int) (*client, error), addr string, conns, fresh int, duration time.Duration) (measured, error) {
	clients := make([]*client, conns)
	for i := range clients {
		c, err := dial(addr, uint64(i)<<40|uint64(time.Now().UnixNano())<<8, fresh)
		if err != nil {
			return measured{}, err
		}
		defer c.conn.Close()
		clients[i] = c
		if err := c.send(); err != nil { // warms up, and gives later batches their duplicates
			return measured{}, err
		}
	}
	var wg sync.WaitGroup
	errs := make(chan error, conns)
	start := time.Now()
	for _, c := range clients {
		wg.Go(func() {
			for time.Since(start) < duration {
				before := time.Now()
				if err := c.send(); err != nil {
					errs <- err
					return
				}
				c.times = append(c.times, time.Since(before))
			}
		})
	}
	wg.Wait()
	spent := time.Since(start)
	select {
	case err := <-errs:
		return measured{}, err
	default:
	}
	var all []time.Duration
	for _, c := range clients {
		all = append(all, c.times...)
	}
	slices.Sort(all)
	return measured{float64(len(all)*batch) / spent.Seconds(), report.Quantile(all, 0.5), report.Quantile(all, 0.99)}, nil
}
