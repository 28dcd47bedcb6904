package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// timingBesideBloom measures the kind timing beside the kind bloom, which it shares all with
// but the memory: in process, over HTTP, in Redis, and at a restart.
func timingBesideBloom(s settings) error {
	for _, part := range []func(settings) error{tableInProcess, timingOverHTTP, timingOverRedis, timingRestart} {
		if err := part(s); err != nil {
			return err
		}
	}
	return nil
}

// tableInProcess measures a test-and-set of a 66-byte URL, hashing included, half of the
// items duplicates, at so many live items, and what an item takes.
func tableInProcess(s settings) error {
	t := table{{"live items", "timing", "bloom of that capacity", "timing, bytes an item", "bloom, bytes an item", "timing, all expired: bytes left", "and the sweeps took"}}
	for _, live := range []uint64{1_000_000, 20_000_000} {
		var ns, bits float64
		var entry float64
		var left uint64
		var swept time.Duration
		now := time.Duration(0)
		mk := func(uint64) (func(*items), func(), error) {
			tab := timing.New(timing.Clock{Elapsed: func() time.Duration { return now }, Wall: time.Now})
			keys, fresh := make([]bloom.Hash, batch), make([]bool, batch)
			add := func(it *items) {
				for i, text := range it.text {
					keys[i] = bloom.Sum(42, text)
				}
				_, _ = tab.Add(keys, time.Hour, fresh)
			}
			it := newItems(1 << 50)
			for range (live - warmBatches*batch/2) / (batch / 2) {
				it.fill()
				add(it)
			}
			return add, func() {
				st := tab.Stats()
				entry = float64(st.Bytes) / float64(st.Items)
				now += 2 * time.Hour
				start := time.Now()
				for range timing.Parts {
					_ = tab.Sweep()
				}
				swept, left = time.Since(start), tab.Stats().Bytes
				_ = tab.Close()
			}, nil
		}
		if live < warmBatches*batch/2 {
			live = warmBatches * batch / 2
		}
		var err error
		if ns, err = oneCore(s, live, mk); err != nil {
			return err
		}
		if bits, err = oneCore(s, live, oursOneCore); err != nil {
			return err
		}
		h, err := bloom.NewHeader(live, errorRate, 42, time.Now())
		if err != nil {
			return err
		}
		t.row(million(float64(live)), fmt.Sprintf("%.1f ns", ns), fmt.Sprintf("%.1f ns", bits), fmt.Sprintf("%.1f", entry),
			fmt.Sprintf("%.1f", float64(h.Bytes())/float64(live)), fmt.Sprint(left), ms(swept))
	}
	t.print("Timing, in process: one test-and-set of a 66-byte URL on one core, batches of 1,000, half duplicates")
	return nil
}

const timingSpec = `{"id":1,"kind":"timing","expire":86400}`

// kindSpecs are the filters that stand beside each other.
func kindSpecs() [2]struct{ kind, spec string } {
	return [2]struct{ kind, spec string }{
		{"bloom", fmt.Sprintf(`{"id":1,"kind":"bloom","capacity":10000000,"error_rate":%v}`, errorRate)},
		{"timing", timingSpec},
	}
}

func timingOverHTTP(s settings) error {
	t := table{{"kind", "durability", "connections", "items/s", "of bloom", "p50", "p99"}}
	for _, durability := range []string{"none", "always"} {
		srv, err := startServer(s, durability)
		if err != nil {
			return err
		}
		if err := besideBloom(s, &t, srv, durability); err != nil {
			return err
		}
		if err := srv.stop(); err != nil {
			return err
		}
	}
	t.print("Timing over HTTP: batches of 1,000 items of 66 bytes, half duplicates, an expire of a day")
	return nil
}

func timingOverRedis(s settings) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("\ntiming in Redis: redis-server is not installed (Debian: redis-server); left out")
		return nil
	}
	redis, err := startRedis(s)
	if err != nil {
		return err
	}
	defer redis.Process.Kill()
	srv, err := startServer(s, "always", "URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS="+redis.Args[len(redis.Args)-1])
	if err != nil {
		return err
	}
	t := table{{"kind", "store", "connections", "items/s", "of bloom", "p50", "p99"}}
	if err := besideBloom(s, &t, srv, "redis"); err != nil {
		return err
	}
	t.print("Timing in Redis: client, daemon and Redis on this machine, half duplicates")
	return srv.stop()
}

// besideBloom drives both kinds in turn, so that what else the machine does meets both.
func besideBloom(s settings, t *table, srv *server, where string) error {
	for _, conns := range []int{1, 4, 16} {
		var all [2][]measured
		for range s.runs {
			for i, k := range kindSpecs() {
				if err := srv.remake(k.spec); err != nil {
					return err
				}
				m, err := drive(srv.addr, conns, batch/2, s.duration)
				if err != nil {
					return fmt.Errorf("%s, %s, %d connections: %w", k.kind, where, conns, err)
				}
				all[i] = append(all[i], m)
			}
		}
		var bloomRate float64
		for i, k := range kindSpecs() {
			var rates []float64
			var p50s, p99s []time.Duration
			for _, m := range all[i] {
				rates, p50s, p99s = append(rates, m.rate), append(p50s, m.p50), append(p99s, m.p99)
			}
			rate := median(rates)
			if i == 0 {
				bloomRate = rate
			}
			t.row(k.kind, where, fmt.Sprint(conns), million(rate), fmt.Sprintf("%.0f %%", rate/bloomRate*100), ms(median(p50s)), ms(median(p99s)))
		}
	}
	return nil
}

// timingRestart measures how long a daemon with a timing filter of 10 million live items
// takes from its start to its first answer, after kill -9, and what memory it has.
func timingRestart(s settings) error {
	const live = 10_000_000
	const filters = `URIFILTER_FILTERS=[{id: 1, name: uri, kind: timing, expire: 24h}]`
	srv, err := startServer(s, "none", filters)
	if err != nil {
		return err
	}
	c, err := dial(srv.addr, 1<<50, batch/2)
	if err != nil {
		return err
	}
	for range live / (batch / 2) {
		if err := c.send(); err != nil {
			return err
		}
	}
	var all []time.Duration
	var memory string
	for range s.runs {
		for range 200 { // so that there is a journal to replay
			if err := c.send(); err != nil {
				return err
			}
		}
		_ = srv.end(syscall.SIGKILL)
		_ = c.conn.Close()
		start := time.Now()
		if srv, err = startServer(s, "none", filters); err != nil {
			return err
		}
		if c, err = dial(srv.addr, c.next, batch/2); err != nil {
			return err
		}
		if err := c.send(); err != nil {
			return err
		}
		all = append(all, time.Since(start))
		memory = resident(srv.cmd.Process.Pid)
	}
	t := table{{"restart of a timing filter with 10 M live items", "serves after", "resident memory"}}
	t.row("after kill -9", fmt.Sprintf("%.2f s", median(all).Seconds()), memory)
	t.print("Timing: restart (the files are in the page cache)")
	return srv.stop()
}
