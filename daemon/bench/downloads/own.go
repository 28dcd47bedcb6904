package downloads

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// counted are the metrics of the program that are shown for each task.
var counted = []struct{ name, metric string }{
	{"lease", `uridownloader_store_request_duration_seconds_count{call="lease"}`},
	{"renew", `uridownloader_store_request_duration_seconds_count{call="renew"}`},
	{"finish, with data and log", `uridownloader_store_request_duration_seconds_count{call="finish"}`},
	{"hand out", `uridownloader_store_request_duration_seconds_count{call="hand_out"}`},
	{"all others", ""},
	{"transactions, a sync each", "uridownloader_store_transactions_total"},
}

const allCalls = "uridownloader_store_request_duration_seconds_count"

// runOwn makes the program download the pages of one job. The clock runs from the moment when the
// job is turned on, with all of its tasks waiting, until the last result is durable. If perCall is
// not nil, runOwn adds to it the store calls per task, by name and number of downloads at once.
func (o Options) runOwn(concurrency int, perCall map[string]map[int][]float64) (measured, error) {
	return o.runJob(concurrency, "name: bench\nsetting: {delay: 0s, concurrency: 100, dispatch: 100000}\n", pages(o.port, o.Pages), perCall)
}

// runJob is runOwn for any job of o.Pages pages.
func (o Options) runJob(concurrency int, job, list string, perCall map[string]map[int][]float64, env ...string) (m measured, err error) {
	p, err := o.start(concurrency, env...)
	if err != nil {
		return m, err
	}
	if err := p.addJob(job); err != nil {
		return m, err
	}
	if err := p.addURIs(list); err != nil {
		return m, err
	}
	before, err := p.metrics()
	if err != nil {
		return m, err
	}
	start := time.Now()
	if err := p.resume(); err != nil {
		return m, err
	}
	if err := p.until("done", o.Pages); err != nil {
		return m, err
	}
	spent := time.Since(start)
	after, err := p.metrics()
	if err != nil {
		return m, err
	}
	n := float64(o.Pages)
	m.rate = n / spent.Seconds()
	m.cpu = (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) * 1000 / n
	_, m.memory = Memory(p.cmd.Process.Pid)
	if perCall == nil {
		return m, p.stop()
	}
	others := 0.0
	for name, value := range after {
		if strings.HasPrefix(name, allCalls+"{") {
			others += value - before[name]
		}
	}
	others -= after[countsOf] - before[countsOf] // this benchmark's own requests
	for _, c := range counted {
		value := after[c.metric] - before[c.metric]
		switch {
		case c.metric == "":
			value = others
		case strings.HasPrefix(c.metric, allCalls):
			others -= value
		}
		if perCall[c.name] == nil {
			perCall[c.name] = map[int][]float64{}
		}
		perCall[c.name][concurrency] = append(perCall[c.name][concurrency], value/n)
	}
	return m, p.stop()
}

const countsOf = allCalls + `{call="counts"}`

// queued measures the cost of waiting tasks: the time to add them and to hand 7,000 of them out,
// memory and disk. No worker serves the job's lane, so that tasks stay once they are handed out.
func (o Options) queued() error {
	t := report.Table{{"tasks in the store", "added a second", "7,000 handed out in", "memory of the process", "bytes of disk a task"}}
	const some = 7000
	list := pages(o.port, o.Tasks)
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		if n > o.Tasks {
			break
		}
		var added, handed, resident, bytes []float64
		for range max(1, min(o.Runs, 1_000_000/n)) {
			p, err := o.start(perWorker)
			if err != nil {
				return err
			}
			if err := p.addJob("name: bench\nsetting: {prior: foreign, dispatch: 100000}\n"); err != nil {
				return err
			}
			end := 0
			for range n {
				end += strings.IndexByte(list[end:], '\n') + 1
			}
			start := time.Now()
			if err := p.addURIs(list[:end]); err != nil {
				return err
			}
			added = append(added, float64(n)/time.Since(start).Seconds())
			start = time.Now()
			if err := p.resume(); err != nil {
				return err
			}
			if err := p.until("ready", some); err != nil {
				return err
			}
			handed = append(handed, time.Since(start).Seconds())
			now, _ := Memory(p.cmd.Process.Pid)
			resident = append(resident, now)
			if err := p.end(); err != nil {
				return err
			}
			size, err := diskBytes(filepath.Join(p.dir, "store"))
			if err != nil {
				return err
			}
			bytes = append(bytes, float64(size)/float64(n))
			if err := os.RemoveAll(p.dir); err != nil {
				return err
			}
		}
		t.Row(report.Whole(float64(n)), report.Whole(report.Median(added)), fmt.Sprintf("%.2f s", report.Median(handed)),
			fmt.Sprintf("%.0f MB", report.Median(resident)/1e6), fmt.Sprintf("%.0f", report.Median(bytes)))
	}
	o.report.Table("queued", "Over HTTP; bytes of the store's folder after a stop", t)
	return nil
}
