package remote

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// killWait bounds the wait for the end of an interrupted command. Tests may set another
// time.
const killWait = 2 * time.Second

// killScript ends the processes of commands: those with one of the words in their
// arguments or environment, and all their descendants. It sends SIGHUP as a terminal does,
// and, where that does not help, the signals of a service stop. The words come by
// standard input, so that the script does not find itself.
const killScript = `roots=$(grep -lsaF -f - /proc/[0-9]*/cmdline /proc/[0-9]*/environ)
[ -n "$roots" ] || exit 0
all=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$roots" '
	{ pid = $1; sub(/^.*[)] /, ""); parent[pid] = $2 }
	END {
		n = split(roots, path, "\n")
		for (i = 1; i <= n; i++) { split(path[i], part, "/"); tree[part[3]] = 1 }
		do {
			more = 0
			for (p in parent) if (!(p in tree) && (parent[p] in tree)) { tree[p] = 1; more = 1 }
		} while (more)
		for (p in tree) print p
	}')
kill -HUP $all 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do
	left=
	for p in $all; do [ -d "/proc/$p" ] && left=1; done
	[ -n "$left" ] || exit 0
	sleep 0.1
done
kill -TERM $all 2>/dev/null
exit 0`

// killer collects commands that are to be ended at the same time, as when a run is
// interrupted, so that one session is enough for all.
type killer struct {
	mu      sync.Mutex
	batches map[identity]*killBatch
}

type killBatch struct {
	words strings.Builder
	done  chan struct{}
}

// gather is how long a batch waits for more commands.
const gather = 20 * time.Millisecond

// kill ends the command with a word on the host. It waits no longer than the Dialer's killWait.
func (c *Conn) kill(ctx context.Context, as identity, word string) {
	if as.user != "" { // whoever may become that user may become root
		as = as.asRoot()
	}
	c.killer.mu.Lock()
	b := c.killer.batches[as]
	if b == nil {
		b = &killBatch{done: make(chan struct{})}
		if c.killer.batches == nil {
			c.killer.batches = map[identity]*killBatch{}
		}
		c.killer.batches[as] = b
		if !c.link.Start(func() { c.killAll(ctx, as, b) }) {
			close(b.done) // the connection is closed, and ends them
		}
	}
	b.words.WriteString(word + "\n")
	c.killer.mu.Unlock()
	<-b.done
}

func (c *Conn) killAll(ctx context.Context, as identity, b *killBatch) {
	defer close(b.done)
	time.Sleep(gather)
	c.killer.mu.Lock()
	delete(c.killer.batches, as)
	words := b.words.String()
	c.killer.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.dialer.killWait)
	defer cancel()
	_, _ = c.exec(ctx, as, host.Command{Script: killScript, Stdin: strings.NewReader(words)}, false)
}
