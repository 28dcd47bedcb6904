package kills_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// controlGroup is a control group whose processes may have so much memory together, of the version
// that bounds memory on this machine.
type controlGroup struct{ dir string }

func newControlGroup(t *testing.T, bytes int) controlGroup {
	t.Helper()
	name := fmt.Sprintf("urifilter-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	g := controlGroup{filepath.Join("/sys/fs/cgroup/memory", name)}
	limits := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g.dir, limits = filepath.Join("/sys/fs/cgroup", name), []string{"memory.max", "memory.swap.max"}
		_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0)
	}
	if err := os.Mkdir(g.dir, 0o755); errors.Is(err, os.ErrPermission) {
		t.Skip("only root may make control groups")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(g.dir); err != nil {
			t.Error(err)
		}
	})
	for i, file := range limits {
		value := strconv.Itoa(bytes)
		if file == "memory.swap.max" {
			value = "0"
		}
		err := os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0)
		if err != nil && i == 0 { // not every kernel counts swap
			t.Fatal(err)
		}
	}
	return g
}

// start starts the daemon in the control group.
func (g controlGroup) start(t *testing.T, dir string, env []string) *processtest.Process {
	t.Helper()
	return processtest.BeginIn(t, filepath.Join(g.dir, "cgroup.procs"), dir, env).AwaitReady()
}

// filling is one filter of a test, with the batches that it has acknowledged.
type filling struct {
	name, kind string
	batch      int // items of a batch
	acked      int
	full       bool
}

// body is batch n for a call.
func (f *filling) body(n int) (path, body string) {
	if f.kind == "simhash" {
		var b strings.Builder
		fmt.Fprintf(&b, `{"filter":%q,"limit":1,"documents":[`, f.name)
		for i := range f.batch {
			id := n*f.batch + i
			fmt.Fprintf(&b, `%s{"id":"%d","text":"%x %x %x %x"}`, comma(i), id, mix(id), mix(id+1<<40), mix(id+2<<40), mix(id+3<<40))
		}
		return "/api/v1/near", b.String() + "]}"
	}
	b := fmt.Appendf(make([]byte, 0, 100+12*f.batch), `{"filter_typeid":%q,"uri_list":[`, f.name)
	for i := range f.batch {
		b = append(append(b, comma(i)...), '"')
		b = append(strconv.AppendInt(b, int64(n*f.batch+i), 10), '"')
	}
	return "/api/v1/filter", string(append(b, "]}"...))
}

func comma(i int) string { return ","[:min(i, 1)] }

// mix makes numbers that have nothing in common.
func mix(n int) uint64 {
	x := uint64(n) * 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>29
}

// fill sends new batches from several callers until one is refused.
func (f *filling) fill(p *processtest.Process, callers int) error {
	for !f.full {
		errs := make([]error, callers)
		status := make([]int, callers)
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				path, body := f.body(f.acked + c)
				var answer string
				// Bodies beyond limits.held_bytes are sent again, as clients do.
				for again := true; again; again = errs[c] == nil && status[c] == http.StatusServiceUnavailable {
					status[c], answer, errs[c] = p.Post(context.Background(), path, body)
				}
				if errs[c] == nil && status[c] != http.StatusOK && (status[c] != http.StatusInsufficientStorage || !strings.Contains(answer, `"filter_full"`)) {
					errs[c] = fmt.Errorf("status %d: %.300s", status[c], answer)
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("filter %s, after %d batches: %w", f.name, f.acked, err)
		}
		for _, s := range status { // those after a gap are not counted
			if f.full = f.full || s != http.StatusOK; !f.full {
				f.acked++
			}
		}
	}
	return nil
}

// remembers sends all acknowledged batches again.
func (f *filling) remembers(p *processtest.Process) error {
	for n := range f.acked {
		path, body := f.body(n)
		if path == "/api/v1/near" {
			if n%10 > 0 { // they take long
				continue
			}
			// A document that is remembered gets the answer of its first coming: what shows that
			// it is there is that another with its text is not new.
			body = strings.ReplaceAll(body, `"id":"`, `"id":"again `)
			body = strings.Replace(body, `"limit":1,`, `"limit":1,"remember":false,`, 1)
		}
		status, answer, err := p.Post(context.Background(), path, body)
		if err != nil || status != http.StatusOK || path == "/api/v1/filter" && !strings.Contains(answer, `"uri_list":[]`) || path != "/api/v1/filter" && strings.Contains(answer, `"new":true`) {
			return fmt.Errorf("filter %s, batch %d of %d, which was acknowledged: status %d, %v: %.300s", f.name, n, f.acked, status, err, answer)
		}
	}
	return nil
}

// A daemon in a control group of 200 MB is filled by callers until it refuses new items, is killed
// and started again, twice, and has all that it acknowledged: with one filter, with three that grow in steps, and
// with one of each kind. Nothing but the test kills it.
func TestSystemMemoryOfAControlGroup(t *testing.T) {
	const limit = 200 << 20
	specs := map[string]string{
		"bloom": "capacity: 1000000", "timing": "expire: 240h", "exact": "canonical: none", "simhash": "distance: 3",
	}
	for name, kinds := range map[string][]string{
		"timing": {"timing"}, "simhash": {"simhash"},
		"bloom, three": {"bloom", "bloom", "bloom"}, "exact, three": {"exact", "exact", "exact"},
		"all kinds": {"bloom", "timing", "exact", "simhash"},
	} {
		t.Run(name, func(t *testing.T) {
			group, dir := newControlGroup(t, limit), t.TempDir()
			var all []*filling
			var list []string
			for i, kind := range kinds {
				f := &filling{name: fmt.Sprintf("f%d", i), kind: kind, batch: 100_000}
				if kind == "simhash" {
					f.batch = 20_000
				}
				all = append(all, f)
				list = append(list, fmt.Sprintf("{id: %d, name: %s, kind: %s, %s}", i+1, f.name, kind, specs[kind]))
			}
			env := []string{"URIFILTER_FILTERS=[" + strings.Join(list, ", ") + "]"}
			p := group.start(t, dir, env)
			alive := func(err error) {
				t.Helper()
				select {
				case <-p.Done:
					t.Fatalf("the daemon has ended: %v; %v\n%s", p.Err, err, p.Log)
				default:
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, p.Log)
				}
			}
			each := func(do func(*filling) error) {
				t.Helper()
				errs := make([]error, len(all))
				var wait sync.WaitGroup
				for i, f := range all {
					wait.Go(func() { errs[i] = do(f) })
				}
				wait.Wait()
				alive(errors.Join(errs...))
			}
			for range 2 {
				each(func(f *filling) error { f.full = false; return f.fill(p, 3) })
				t.Logf("resident at most: %s", peak(t, p))
				_ = p.End(syscall.SIGKILL)
				p = group.start(t, dir, env)
			}
			each(func(f *filling) error { return f.remembers(p) })
			t.Logf("resident at most: %s", peak(t, p))
			sum := uint64(0)
			for _, f := range all {
				bytes := bytesOf(t, p, f.name)
				sum += bytes
				t.Logf("filter %s, %s: %d items in %d bytes", f.name, f.kind, f.acked*f.batch, bytes)
				if f.acked == 0 && len(all) == 1 {
					t.Errorf("filter %s took nothing", f.name)
				}
			}
			// Three quarters of the limit, of which a quarter is for bodies.
			if most := uint64(limit) * 9 / 16; sum > most {
				t.Errorf("the filters take %d bytes, want %d at most", sum, most)
			}
		})
	}
}

func bytesOf(t *testing.T, p *processtest.Process, filter string) uint64 {
	t.Helper()
	var f client.FilterInfo
	_, answer, err := p.Get("/api/v1/filters/" + filter)
	if err := errors.Join(err, json.Unmarshal([]byte(answer), &f)); err != nil {
		t.Fatal(err)
	}
	return f.Bytes
}

// peak is the most memory that the daemon had at once, with the pages of its program.
func peak(t *testing.T, p *processtest.Process) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
