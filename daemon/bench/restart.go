package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/downloads"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// restart measures how long a daemon with a full filter of 150 million items takes
// from its start to its first answer, after a clean stop and after kill -9, and how much
// memory it then has.
func restart(s settings) error {
	const capacity = 150_000_000
	const more = 2000 // batches between restarts: a million items
	v, err := startVictim(s, `URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 150000000, on_full: warn}]`, capacity/(batch/2)-2*s.runs*more)
	if err != nil {
		return err
	}
	t := report.Table{{"restart of a filter for 150 M items, nearly full", "serves after", "resident memory"}}
	for _, how := range []struct {
		name string
		sig  syscall.Signal
	}{{"after SIGTERM", syscall.SIGTERM}, {"after kill -9 under load", syscall.SIGKILL}} {
		took, memory, err := v.restart("Restart/"+how.name, how.sig, more)
		if err != nil {
			return err
		}
		t.Row(how.name, fmt.Sprintf("%.2f s", took.Seconds()), memory)
	}
	s.out.Table("restart", "The files are in the page cache", t)
	return v.srv.stop()
}

// victim is a daemon that is ended and started again, with its client.
type victim struct {
	settings
	filters string // of the daemon's environment
	srv     *server
	c       *client
}

// startVictim starts a daemon, and sends it so many batches.
func startVictim(s settings, filters string, batches int) (*victim, error) {
	v := &victim{settings: s, filters: filters}
	if err := v.start(1 << 50); err != nil {
		return nil, err
	}
	return v, v.send(batches)
}

func (v *victim) start(next uint64) (err error) {
	if v.srv, err = startServer(v.settings, "none", v.filters); err == nil {
		v.c, err = dial(v.srv.addr, next, batch/2)
	}
	return err
}

func (v *victim) send(batches int) error {
	for range batches {
		if err := v.c.send(); err != nil {
			return err
		}
	}
	return nil
}

// restart returns the median of the times from a start to the first answer, and the memory that the daemon then has.
// Before each end it sends so many batches more, so that there is a journal to replay.
func (v *victim) restart(sample string, sig syscall.Signal, batches int) (took time.Duration, memory string, err error) {
	memory = "unknown"
	var all []time.Duration
	for range v.runs {
		if err := v.send(batches); err != nil {
			return 0, "", err
		}
		_ = v.srv.end(sig)
		_ = v.c.Close()
		began := time.Now()
		if err := v.start(v.c.next); err != nil {
			return 0, "", err
		}
		if err := v.send(1); err != nil {
			return 0, "", err
		}
		all = append(all, time.Since(began))
		v.out.Run(sample, report.Took("start", all[len(all)-1]))
		if now, _ := downloads.Memory(v.srv.cmd.Process.Pid); now > 0 { // there is a /proc
			memory = fmt.Sprintf("%.0f kB", now/1024)
		}
	}
	return report.Median(all), memory, nil
}
