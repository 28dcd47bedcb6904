package mysql

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
)

// down is a host whose server is down, and has databases.
type down struct {
	host.Host
	databases string // "": it does not start as it is
	active    bool
	ran       []string
}

func (h *down) Run(_ context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "stat -Lc"):
		return host.Output{Stdout: "0\n"}, nil
	case strings.Contains(c.Script, "systemctl show --property=LoadState"):
		return host.Output{Stdout: "LoadState=loaded\nActiveState=" + map[bool]string{false: "inactive", true: "active"}[h.active]}, nil
	case strings.Contains(c.Script, "mariadbd --version"):
		return host.Output{Stdout: "mariadbd  Ver 10.11.6-MariaDB"}, nil
	case strings.Contains(c.Script, "| mariadb "):
		return host.Output{Stdout: h.databases + "\n"}, nil
	case strings.Contains(c.Script, "systemctl start "):
		h.active, h.ran = h.databases != "", append(h.ran, "start")
		if !h.active {
			return host.Output{}, &host.CommandError{}
		}
	case strings.Contains(c.Script, "systemctl stop "):
		h.active, h.ran = false, append(h.ran, "stop")
	case c.Stdin != nil:
		h.ran = append(h.ran, "write")
	}
	return host.Output{}, nil
}

// A server that is down tells only once it is started that others have databases in it. It is not taken, and is down
// again. One that does not start as it is gets our file.
func TestServerOfOthersThatIsDown(t *testing.T) {
	t.Parallel()
	for databases, want := range map[string][]string{"NULL": {"start", "write"}, "shop": {"start", "stop"}, "": {"start", "write"}} {
		h := &down{databases: databases}
		c, err := New(Options{}).configuration().Look(t.Context(), h)
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		if err := c.Apply(t.Context()); (err == nil) != (databases != "shop") || err != nil && !strings.Contains(err.Error(), "databases of other applications: shop") {
			t.Errorf("%s: %v", databases, err)
		}
		if !slices.Equal(h.ran, want) {
			t.Errorf("%s: it ran %q, want %q", databases, h.ran, want)
		}
	}
}
