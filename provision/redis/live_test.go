package redis

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// scripted is a host with a server whose answers are written down.
type scripted struct {
	host.Host
	files  string            // what there is to read; "": the distribution's file, and none of ours
	says   map[string]string // by command
	active bool
	ran    []string // commands that change something
}

func (h *scripted) Run(_ context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "stat -Lc") && h.files != "":
		return host.Output{Stdout: h.files}, nil
	case strings.Contains(c.Script, "stat -Lc"):
		return host.Output{Stdout: "1\n0\n0\n0\nregular file|10|640|redis|redis\nport 6379\n"}, nil
	case strings.Contains(c.Script, "systemctl show --property=LoadState"):
		state := map[bool]string{false: "inactive", true: "active"}[h.active]
		return host.Output{Stdout: "LoadState=loaded\nUnitFileState=enabled\nActiveState=" + state + "\n"}, nil
	case c.Stdin == nil:
		for _, verb := range []string{"start", "stop"} {
			if strings.Contains(c.Script, "systemctl "+verb+" ") {
				h.active, h.ran = verb == "start", append(h.ran, verb)
			}
		}
		return host.Output{}, nil
	}
	input, err := io.ReadAll(c.Stdin)
	var out strings.Builder
	for command := range strings.Lines(string(input)) {
		command = strings.TrimSpace(command)
		if text, echo := strings.CutPrefix(command, "ECHO "); echo {
			fmt.Fprintln(&out, text)
			continue
		}
		if !c.Watch {
			h.ran = append(h.ran, command)
		}
		fmt.Fprintln(&out, h.says[command])
		if command == "BGREWRITEAOF" {
			h.says["INFO persistence"] = "aof_enabled:1\naof_last_bgrewrite_status:" + h.says["then"]
		}
	}
	return host.Output{Stdout: out.String()}, err
}

// An append-only file whose last rewrite has failed, long ago perhaps, is rewritten once more: what was in the way may
// be gone. Only if that fails, too, the server is not changed.
func TestRewriteThatFailedEarlier(t *testing.T) {
	t.Parallel()
	for then, want := range map[string]string{"ok": "", "err": "writing the file ended with err"} {
		synctest.Test(t, func(t *testing.T) {
			h := &scripted{says: map[string]string{
				"CONFIG GET appendonly": "appendonly\nyes", "INFO persistence": "aof_enabled:1\naof_last_bgrewrite_status:err", "then": then,
			}}
			err := client{host: h, cli: "redis-cli"}.appendOnly(t.Context())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || !slices.Equal(h.ran, []string{"BGREWRITEAOF"}) {
				t.Errorf("%s: %v, it ran %q", then, err, h.ran)
			}
		})
	}
}

// A server that is down tells only once it is started that others have data in it. It is not taken, and is down again.
func TestServerOfOthersThatIsDown(t *testing.T) {
	t.Parallel()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &scripted{says: map[string]string{"PING": "PONG", "INFO keyspace": "db0:keys=1", "SCAN 0 COUNT 500": "0\nshop:cart"}}
	first := func(ctx context.Context) error { // of all steps
		change, err := s.Steps(apt.New(apt.Options{}))[0].(step.Wish).Look(ctx, h)
		if err != nil || change == nil {
			return err
		}
		return change.Apply(ctx)
	}
	for n, ask := range []func(context.Context) error{first, func(ctx context.Context) error { return s.configure(ctx, h) }} {
		h.ran = nil
		if err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), `keys such as "shop:cart"`) {
			t.Errorf("%d: got %v", n, err)
		}
		if want := []string{"start", "SCAN 0 COUNT 500", "stop"}; !slices.Equal(h.ran, want) {
			t.Errorf("%d: it ran %q, want %q", n, h.ran, want)
		}
	}
}

// Our own server that was down, and has something to say against its setup, is not stopped again.
func TestOwnServerThatIsDown(t *testing.T) {
	t.Parallel()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &scripted{files: s.files(), says: map[string]string{"PING": "MISCONF no space"}}
	if err := s.configure(t.Context(), h); err == nil || !strings.Contains(err.Error(), "MISCONF no space") || !slices.Equal(h.ran, []string{"start"}) {
		t.Errorf("got %v, it ran %q", err, h.ran)
	}
}

// files returns what a host has to read whose server we have set up.
func (s *Server) files() string {
	main, ours := "include "+s.product.settings()+"\n", s.text(state{})
	return fmt.Sprintf("1\n1\n0\n0\nregular file|%d|640|redis|redis\nregular file|%d|640|root|redis\n%s%s", len(main), len(ours), main, ours)
}

// A plan says that Redis is restarted if that is what a deployment does: for another port, and not for what is set in the
// running server.
func TestPlannedRestart(t *testing.T) {
	t.Parallel()
	was, err := New(Options{MaxMemory: "1gb"})
	if err != nil {
		t.Fatal(err)
	}
	h := &scripted{files: was.files(), active: true, says: map[string]string{}}
	for _, d := range was.directives(state{}) {
		h.says["CONFIG GET "+d.key] = d.key + "\n" + d.value
	}
	h.says["CONFIG GET maxmemory"] = fmt.Sprintf("maxmemory\n%d", bytesOf("1gb"))
	for want, o := range map[string]Options{
		"":            {MaxMemory: "2gb", AppendFsync: "always"},
		"port":        {MaxMemory: "1gb", Port: 6400},
		"appendfsync": {MaxMemory: "1gb"}, // in the file, and the server has another
	} {
		if want == "appendfsync" {
			h.says["CONFIG GET appendfsync"] = "appendfsync\nno"
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if why, err := s.restartFor(t.Context(), h); err != nil || why != want {
			t.Errorf("%+v: restart for %q, %v; want %q", o, why, err, want)
		}
		h.says["CONFIG GET appendfsync"] = "appendfsync\neverysec"
	}
}
