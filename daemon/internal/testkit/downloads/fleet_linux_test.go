package downloads

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// fleet is the set of processes that together are the downloader, and the servers beside it.
// Callers use the first one.
type fleet struct {
	t       *testing.T
	mongo   bool // the store is a server, which may be too busy to answer in time
	dir     string
	env     []string
	members []*member
	victims []victim
	stops   int // orderly stops, which give running downloads back
	struck  map[string]int
	next    []int // victims whose turn is next
}

// victim is something that a campaign stops and restarts.
type victim interface {
	name() string
	// strike ends the victim in one of several ways, restarts it, and returns when it serves.
	strike(f *fleet, random *rand.Rand)
}

// member is one process of ours, which is restarted many times.
type member struct {
	binary string
	role   string // the name of the program's command
	data   string // its folder
	addr   string // its listener
	life   int
	testserver.Process
}

// ready is what a process logs when it serves.
const ready = `"msg":"ready"`

// newFleet starts the processes of the options, and the servers that they need. Each identifies
// itself by its User-Agent, which changes with each restart.
func newFleet(t *testing.T, o Options) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: o.Keep, struck: map[string]int{}}
	if f.dir == "" {
		f.dir = t.TempDir()
	}
	f.env = []string{"URIDOWNLOADER_DISPATCH_EVERY=5s", "URIDOWNLOADER_LOG_LEVEL=info", "URIDOWNLOADER_LOG_FORMAT=json", "URIDOWNLOADER_WORKER_LEASE=10s",
		"URIFILTER_LOG_FORMAT=json", "URIFILTER_URI_NUM_SCALE=1000000"}
	var apart bool // the store is not in the folder
	if o.MongoDB {
		apart, f.mongo = true, true
		f.startMongoDB()
	}
	if o.Redis {
		f.startRedis()
	}
	if o.Filter {
		daemon := f.add(f.build("urifilter"), "serve", "filter")
		f.env = append(f.env, "URIDOWNLOADER_FILTER_URL=http://"+daemon.addr)
	}
	downloader := f.build("uridownloader")
	for i, role := range o.Roles {
		data := "data"
		if apart {
			data = fmt.Sprint("data-", i)
		}
		f.members = append(f.members, f.add(downloader, role, data))
	}
	return f
}

func (f *fleet) build(program string) string {
	binary := filepath.Join(f.dir, program)
	if err := testserver.Program(binary, "github.com/cr-clawer/urifilter/daemon/"+program); err != nil {
		f.t.Fatal(err)
	}
	return binary
}

func (f *fleet) add(binary, role, data string) *member {
	m := &member{binary: binary, role: role, data: filepath.Join(f.dir, data), addr: testserver.Free(f.t)}
	f.victims = append(f.victims, m)
	f.t.Cleanup(m.Kill)
	f.start(m)
	return m
}

func (m *member) name() string { return filepath.Base(m.binary) + " " + m.role }

// agent is the name of the process for the servers of pages.
func (m *member) agent() string { return fmt.Sprintf("%s-%s-%d", m.role, m.addr, m.life) }

// command is the command line for the next start of a member.
func (f *fleet) command(m *member) *exec.Cmd {
	m.life++
	args := append(strings.Fields(m.role), "--data-dir", m.data, "--listen", m.addr)
	if strings.Contains(m.role, "worker") || m.role == "serve" && filepath.Base(m.binary) == "uridownloader" {
		args = append(args, "--allow-private")
	}
	cmd := exec.Command(m.binary, args...)
	cmd.Env = append(append(os.Environ(), f.env...), "URIDOWNLOADER_USER_AGENT="+m.agent())
	return cmd
}

func (f *fleet) log(m *member) string {
	role := strings.NewReplacer(" ", "", "-", "").Replace(m.name())
	return filepath.Join(f.dir, fmt.Sprintf("%s-%s-%d.log", role, strings.ReplaceAll(m.addr, ":", "-"), m.life))
}

// unreachable is in the error when a MongoDB does not answer.
const unreachable = ": unreachable: "

// start starts a member at the address that callers know, and waits until it serves. A member that ends because
// MongoDB has not answered for ten seconds, as on a busy machine, is restarted once, as systemd would.
func (f *fleet) start(m *member) {
	f.t.Helper()
	passing := []string{"address already in use"} // another process has the port for a moment
	if f.mongo {
		passing = append(passing, unreachable)
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		cmd := f.command(m)
		if m.Start(f.t, cmd, f.log(m), []string{ready}, passing) {
			return
		}
	}
	f.t.Fatalf("%s: for two minutes its address %s was taken, or its store unreachable", m.role, m.addr)
}

func (m *member) strike(f *fleet, random *rand.Rand) {
	switch random.IntN(8) {
	case 0: // an orderly stop
		f.stops++
		m.Signal(syscall.SIGTERM)
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // it may not survive that long
		m.Kill()
	case 1: // again, during its start
		m.Kill()
		cmd := f.command(m)
		if err := cmd.Start(); err != nil {
			f.t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // reports that it was killed
	default:
		m.Kill()
	}
	f.start(m)
}

// strike strikes a victim of the fleet. Victims take turns in random order, but a worker is killed
// first, so that even a short campaign has abandoned leases.
func (f *fleet) strike(random *rand.Rand) {
	if len(f.next) == 0 {
		f.next = random.Perm(len(f.victims))
	}
	if f.strikes() == 0 {
		for i, n := range f.next {
			if m, ok := f.victims[n].(*member); ok && filepath.Base(m.binary) == "uridownloader" && (m.role == "worker" || m.role == "serve") {
				f.next = slices.Delete(f.next, i, i+1)
				f.struck[m.name()]++
				m.Kill()
				f.start(m)
				return
			}
		}
	}
	v := f.victims[f.next[0]]
	f.next = f.next[1:]
	f.struck[v.name()]++
	v.strike(f, random)
}

// strikes is the number of strikes.
func (f *fleet) strikes() (n int) {
	for _, of := range f.struck {
		n += of
	}
	return n
}

// remember makes the filter believe that it has seen URIs, like a false positive.
func (f *fleet) remember(filter string, uris []string) error {
	for _, v := range f.victims {
		m, ok := v.(*member)
		if !ok || filepath.Base(m.binary) != "urifilter" {
			continue
		}
		calls := &master{"http://" + m.addr, &http.Client{Timeout: time.Minute}}
		return calls.call(http.MethodPost, "/api/v1/filter?filter_typeid="+filter, "text/plain", strings.Join(uris, "\n")+"\n", whole)
	}
	return fmt.Errorf("filter %s: the campaign has no daemon of filters", filter)
}

// shardsLost is how many times a worker has logged that it lost shards: it could not renew them in
// time, as on a busy machine, and gave back what it was downloading.
func (f *fleet) shardsLost() (n int) {
	f.logs(func(_, line string) {
		n += strings.Count(line, `"msg":"shards lost: `)
	})
	return n
}

// faults returns the faults that the processes themselves have logged.
func (f *fleet) faults() (all []string) {
	f.logs(func(log, line string) {
		if failed := strings.Contains(line, `"level":"ERROR"`) && !(f.mongo && strings.Contains(line, unreachable)); failed || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			all = append(all, log+": "+strings.TrimSpace(line))
		}
	})
	return all
}

// logs calls visit for each line that a process of uridownloader has logged, with the name of its log.
func (f *fleet) logs(visit func(log, line string)) {
	logs, err := filepath.Glob(filepath.Join(f.dir, "uridownloader*.log"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			f.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			visit(filepath.Base(log), line)
		}
	}
}
