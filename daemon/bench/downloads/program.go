package downloads

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// program is a running `uridownloader serve` with an empty store.
type program struct {
	cmd *exec.Cmd
	url string
	dir string
}

func (o Options) start(concurrency int, env ...string) (*program, error) {
	addr := testserver.Free(o.T)
	p := &program{url: "http://" + addr, dir: filepath.Join(o.Dir, "data")}
	p.cmd = exec.Command(o.binary, "serve", "--listen", addr, "--data-dir", p.dir, "--allow-private", "--log-level", "warn")
	p.cmd.Env = append(os.Environ(), "URIDOWNLOADER_WORKER_CONCURRENCY="+strconv.Itoa(concurrency))
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	o.T.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() }) // unless it was ended
	testserver.AwaitReady(o.T, p.url)
	return p, nil
}

// end stops the program gracefully.
func (p *program) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// stop ends the program and removes its data.
func (p *program) stop() error { return errors.Join(p.end(), os.RemoveAll(p.dir)) }

// call makes a call of the program's API.
func (p *program) call(method, path, media, body string, v any) error {
	return Call(method, p.url+path, media, body, v)
}

// Call sends a request to one of our programs, and decodes its answer into v unless v is nil.
func Call(method, url, media, body string, v any) (err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(text, v)
}

// addJob makes the job that the YAML text describes, and turns it off.
func (p *program) addJob(job string) error {
	if err := p.call(http.MethodPost, "/api/v1/jobs", "application/yaml", job, nil); err != nil {
		return err
	}
	return p.call(http.MethodPost, "/api/v1/jobs/bench/pause", "", "", nil)
}

func (p *program) addURIs(list string) error {
	return p.call(http.MethodPost, "/api/v1/jobs/bench/uris", "text/plain", list, nil)
}

func (p *program) resume() error {
	return p.call(http.MethodPost, "/api/v1/jobs/bench/resume", "", "", nil)
}

// until waits until n tasks of the job are in a state. Each look takes processor time of the
// program, so there are few: the next one comes after a tenth of the time that is left at the rate
// so far, or an eighth of the time that has passed if that is less.
func (p *program) until(state string, n int) error {
	start := time.Now()
	for {
		var j struct{ Tasks map[string]int }
		if err := p.call(http.MethodGet, "/api/v1/jobs/bench", "", "", &j); err != nil {
			return err
		}
		have := j.Tasks[state]
		if have >= n {
			return nil
		}
		if j.Tasks["failed"] > 0 {
			return fmt.Errorf("a download failed: %v", j.Tasks)
		}
		passed := time.Since(start)
		left := passed * time.Duration(n-have) / time.Duration(max(have, 1))
		time.Sleep(max(min(left/10, passed/8), 5*time.Millisecond))
	}
}

// metrics returns the program's metrics that have one line and no labels but call, by name or
// name{call}.
func (p *program) metrics() (map[string]float64, error) {
	resp, err := http.Get(p.url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			return all, lines.Err()
		}
		name, value, ok := strings.Cut(lines.Text(), " ")
		if f, err := strconv.ParseFloat(value, 64); ok && err == nil {
			all[name] = f
		}
	}
}

// Memory returns the present and the peak resident memory of a process, in bytes.
func Memory(pid int) (now, peak float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); n == 1 {
			now = kilobytes * 1024
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kilobytes); n == 1 {
			peak = kilobytes * 1024
		}
	}
	return now, peak
}

// watched runs a command to its end, and returns its peak resident memory in bytes. The peak that the
// system counts for an ended process starts from that of the process that started it, so watched
// looks every few milliseconds while the command runs.
func watched(cmd *exec.Cmd) (peak float64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return peak, err
		case <-look.C:
			_, now := Memory(cmd.Process.Pid)
			peak = max(peak, now)
		}
	}
}

// diskBytes returns the size of all files below a folder.
func diskBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
