package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// restart measures how long a daemon with a full filter of 150 million items takes
// from its start to its first answer, after a clean stop and after kill -9, and how much
// memory it then has.
func restart(s settings) error {
	const capacity = 150_000_000
	const filters = `URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 150000000, on_full: warn}]`
	srv, err := startServer(s, "none", filters)
	if err != nil {
		return err
	}
	c, err := dial(srv.addr, 1<<50, batch/2)
	if err != nil {
		return err
	}
	for range (capacity - 2*1_000_000*s.runs) / (batch / 2) { // the rest is sent between restarts
		if err := c.send(); err != nil {
			return err
		}
	}
	t := report.Table{{"restart of a filter for 150 M items, nearly full", "serves after", "resident memory"}}
	for _, how := range []struct {
		name string
		sig  syscall.Signal
	}{{"after SIGTERM", syscall.SIGTERM}, {"after kill -9 under load", syscall.SIGKILL}} {
		var all []time.Duration
		var memory string
		for range s.runs {
			for range 2000 { // a million items more, so that there is a journal to replay
				if err := c.send(); err != nil {
					return err
				}
			}
			_ = srv.end(how.sig)
			_ = c.conn.Close()
			start := time.Now()
			again, err := startServer(s, "none", filters)
			if err != nil {
				return err
			}
			srv = again
			if c, err = dial(srv.addr, c.next, batch/2); err != nil {
				return err
			}
			if err := c.send(); err != nil {
				return err
			}
			all = append(all, time.Since(start))
			s.out.Run("Restart/"+how.name, report.Took("start", all[len(all)-1]))
			memory = resident(srv.cmd.Process.Pid)
		}
		t.Row(how.name, fmt.Sprintf("%.2f s", report.Median(all).Seconds()), memory)
	}
	s.out.Table("restart", "The files are in the page cache", t)
	return srv.stop()
}

func resident(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
