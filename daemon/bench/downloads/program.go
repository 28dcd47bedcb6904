package downloads

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is a running `uridownloader serve` with an empty store.
type program struct {
	cmd *exec.Cmd
	url string
	dir string
}

func (o Options) start(concurrency int, env ...string) (*program, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	p := &program{url: "http://" + addr, dir: filepath.Join(o.Dir, "data")}
	p.cmd = exec.Command(o.binary, "serve", "--listen", addr, "--data-dir", p.dir, "--allow-private", "--log-level", "warn")
	p.cmd.Env = append(os.Environ(), "URIDOWNLOADER_WORKER_CONCURRENCY="+strconv.Itoa(concurrency))
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get(p.url + "/readyz")
		if err == nil {
			if err := resp.Body.Close(); err == nil && resp.StatusCode == http.StatusOK {
				return p, nil
			}
		}
	}
	return nil, errors.Join(fmt.Errorf("%s: not ready after 30 s", p.url), p.kill())
}

// end stops the program in good order.
func (p *program) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// stop ends the program and removes its data.
func (p *program) stop() error { return errors.Join(p.end(), os.RemoveAll(p.dir)) }

func (p *program) kill() error {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
	return os.RemoveAll(p.dir)
}

// call calls the program, and decodes its answer into v, if that is not nil.
func (p *program) call(method, path, media, body string, v any) (err error) {
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
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
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(text, v)
}

// addJob makes a job that is off, as YAML says, with those URIs.
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

// until waits for n tasks of the job in a state. Each look takes processor time of the program, so that there are few: the
// next one comes after a tenth of what is left at the rate so far, or an eighth of what has passed if that is less.
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

// metrics are those of the program that have one line and no labels but call, as name or name{call}.
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

// memory is the resident memory of a process now, and the most that it had, in bytes.
func memory(pid int) (now, most float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); n == 1 {
			now = kilobytes * 1024
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kilobytes); n == 1 {
			most = kilobytes * 1024
		}
	}
	return now, most
}

// watched runs a command to its end, and tells the most resident memory that it had, in bytes. What the system
// counts for a process that has ended begins with that of the process which started it, so it is looked at
// while it runs, every few milliseconds.
func watched(cmd *exec.Cmd) (most float64, err error) {
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
			return most, err
		case <-look.C:
			_, now := memory(cmd.Process.Pid)
			most = max(most, now)
		}
	}
}

// diskBytes is the size of all files below a folder.
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
