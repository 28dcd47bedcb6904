package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// rivals are callers that ask several daemons for the same numbered items.
type rivals struct {
	mu      sync.Mutex
	fresh   []int  // how often a caller was told that the item is new
	unsure  []bool // it was in a call without an answer
	acked   []bool // it was in a call that was answered
	answers int
}

// call asks for a range of items. Only an impossible answer is an error.
func (r *rivals) call(p *processtest.Process, from, to int) error {
	var items []string
	for n := from; n < to; n++ {
		items = append(items, fmt.Sprintf("https://example.com/page/%d", n))
	}
	body, _ := json.Marshal(map[string]any{"filter_typeid": "pages", "uri_list": items})
	status, answer, err := p.Post(context.Background(), "/api/v1/filter", string(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || strings.Contains(answer, "outcome_unknown") {
		for n := from; n < to; n++ {
			r.unsure[n] = true
		}
		return nil
	}
	if status == http.StatusServiceUnavailable {
		return nil
	}
	var got client.FilterResult[string]
	if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil {
		return fmt.Errorf("status %d: %.300s", status, answer)
	}
	r.answers++
	for n := from; n < to; n++ {
		r.acked[n] = true
	}
	for _, item := range got.URIList {
		var n int
		if _, err := fmt.Sscanf(item, "https://example.com/page/%d", &n); err != nil {
			return err
		}
		r.fresh[n]++
	}
	return nil
}

func (r *rivals) answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers
}

// Two daemons share a MariaDB. Each of the three is killed at random moments under 16 callers: no
// item is new twice, and no item with an answer is new again.
func TestKill9MySQL(t *testing.T)       { kill9MySQL(t, 6) }
func TestSystemKill9MySQL(t *testing.T) { kill9MySQL(t, 12) }

func kill9MySQL(t *testing.T, rounds int) {
	t.Parallel()
	server := mysqltest.Start(t)
	env := processtest.OnMySQL(t, server)
	var mu sync.Mutex
	dirs := []string{t.TempDir(), t.TempDir()}
	daemons := []*processtest.Process{processtest.Start(t, dirs[0], env), processtest.Start(t, dirs[1], env)}
	daemon := func(i int) *processtest.Process { mu.Lock(); defer mu.Unlock(); return daemons[i] }
	const items = 30_000
	r := &rivals{fresh: make([]int, items), unsure: make([]bool, items), acked: make([]bool, items)}
	done := make(chan struct{})
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				from := rand.IntN(items - 200)
				if err := r.call(daemon(caller%2), from, from+1+rand.IntN(200)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for round := range rounds {
		want := r.answered() + 20 + rand.IntN(200)
		for deadline := time.Now().Add(5 * time.Minute); r.answered() < want && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("round %d: nobody is answered\n%s", round, daemon(0).Log)
			}
		}
		if i := round % 3; i < 2 {
			addr := daemon(i).Addr
			_ = daemon(i).End(syscall.SIGKILL)
			p := processtest.BeginAt(t, addr, dirs[i], env).AwaitReady()
			mu.Lock()
			daemons[i] = p
			mu.Unlock()
		} else {
			server.Kill()
			server.Run()
		}
	}
	close(done)
	callers.Wait()
	daemon(0).AwaitReady()
	told := append([]int(nil), r.fresh...)
	for from := 0; from < items; from += 1000 {
		if err := r.call(daemon(0), from, from+1000); err != nil {
			t.Fatal(err)
		}
	}
	for n := range items {
		switch again := r.fresh[n] > told[n]; {
		case told[n] > 1:
			t.Errorf("item %d was new %d times", n, told[n])
		case told[n] == 1 && again:
			t.Errorf("item %d was new, and is new again", n)
		case told[n] == 0 && !again && !r.unsure[n]:
			t.Errorf("item %d is seen, and was new for nobody", n)
		}
	}
	for i := range daemons {
		if err := daemon(i).End(syscall.SIGTERM); err != nil || strings.Contains(daemon(i).Log.String(), "panic") {
			t.Errorf("daemon %d: %v\n%s", i, err, daemon(i).Log)
		}
	}
}

// What users do with a filter on MariaDB, and what they are told if something is missing.
func TestMySQLByCommands(t *testing.T) {
	t.Parallel()
	server := mysqltest.Start(t)
	env := processtest.OnMySQL(t, server)
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	p.Want("jobs", "", "filters", "create", "jobs", "--kind", "exact", "--store", "mysql")
	p.Want("store", "", "filters", "show", "jobs")
	p.Want("mysql", "", "filters", "show", "jobs")
	p.Want("https://example.com/1\n", "https://example.com/1\nhttps://example.com/1\n", "filter", "--type", "jobs", "-q")
	p.Want("", "https://example.com/1\n", "filter", "--type", "jobs", "-q")
	// Another daemon has it, and its ids go on from there.
	other := processtest.Start(t, t.TempDir(), env)
	other.Want("", "https://example.com/1\n", "filter", "--type", "jobs", "-q")
	other.Want("local", "", "filters", "create", "local", "--kind", "exact")
	p.Want("more", "", "filters", "create", "more", "--kind", "exact")
	for i, want := range map[*processtest.Process]string{other: `"id":1001`, p: `"id":1002`} {
		name := map[string]string{`"id":1001`: "local", `"id":1002`: "more"}[want]
		if _, answer, err := i.Get("/api/v1/filters/" + name); err != nil || !strings.Contains(answer, want) {
			t.Errorf("%s: want %s: %s, %v", name, want, answer, err)
		}
	}
	if _, answer, _ := p.Get("/metrics"); !strings.Contains(answer, "urifilter_mysql_connected 1") {
		t.Error("the metrics do not say that MariaDB is connected")
	}
	p.Want("1", "https://example.com/1\n", "forget", "--type", "jobs")
	other.Want("https://example.com/1\n", "https://example.com/1\n", "filter", "--type", "jobs", "-q")

	alone := processtest.Start(t, t.TempDir(), nil)
	code, out, errOut := alone.Lines("", "filters", "create", "jobs", "--kind", "exact", "--store", "mysql")
	if code != 1 {
		t.Errorf("exit code %d: %s", code, out)
	}
	processtest.MustContain(t, errOut, `store: "mysql": the daemon has none: its settings lack mysql.addr`)

	code, out, _ = processtest.Command(t, dir, env, "mysql", "grant", "--from", "10.0.0.%")
	if want := "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON `urifilter`.* TO 'urifilter'@'10.0.0.%';\n"; code != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("exit code %d, want %s at the end of\n%s", code, want, out)
	}
	_, _, errOut = processtest.Command(t, dir, env[:1], "mysql", "grant")
	processtest.MustContain(t, errOut, "mysql.password_file: none is set", "hint: ")
	_, _, errOut = processtest.Command(t, dir, nil, "mysql", "init")
	processtest.MustContain(t, errOut, "mysql.addr: none is set", "hint: ")

	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := processtest.MustRefuse(t, append(env, "URIFILTER_MYSQL_PASSWORD_FILE="+wrong), "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0")
	processtest.MustContain(t, said, "Access denied", "hint: check mysql.user and mysql.password_file")
	server.Kill()
	said = processtest.MustRefuse(t, env, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0")
	processtest.MustContain(t, said, "mysql "+server.Addr, "hint: is MariaDB running there?")
	code, _, errOut = p.Lines("https://example.com/1\n", "filter", "--type", "jobs", "--patience", "0s")
	if code != 1 {
		t.Errorf("exit code %d while MariaDB is away: %s", code, errOut)
	}
	processtest.MustContain(t, errOut, "store_unavailable")
	p.MustPost("/api/v1/filter", processtest.List(t, "https://example.com/1"), http.StatusOK) // in the daemon's own store
}
