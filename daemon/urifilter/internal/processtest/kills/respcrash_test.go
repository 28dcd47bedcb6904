package kills_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// Callers by RESP, who pipeline single commands and send batches, while the daemon is killed: no
// item whose answer came is ever new again, in a filter of each family. Those that a first command
// makes are there again, too.
func TestKill9RESP(t *testing.T)       { kill9RESP(t, 7) }
func TestSystemKill9RESP(t *testing.T) { kill9RESP(t, 15) }

func kill9RESP(t *testing.T, rounds int) {
	t.Parallel()
	port := testserver.Free(t)
	k := campaign[*respCaller]{
		filters: growing, checkpoint: "1MiB", env: []string{"URIFILTER_RESP_LISTEN=" + port},
		load:     (*respCaller).load,
		answered: func(c *respCaller) bool { return len(c.acked) > 0 },
		check: func(c *respCaller, _ *processtest.Process, last bool) error {
			return c.check(sample(c.acked, &c.checked, last))
		},
	}
	for i, c := range []respCaller{
		{key: "uri", add: "BF.ADD", exists: "BF.MEXISTS"}, {key: "uri", add: "BF.MADD", exists: "BF.MEXISTS"},
		{key: "made", add: "BF.ADD", exists: "BF.MEXISTS"}, {key: "made", add: "BF.MADD", exists: "BF.MEXISTS"},
		{key: "spider:dupefilter", add: "SADD", exists: "SMISMEMBER"},
	} {
		c.id, c.port = i, port
		k.clients = append(k.clients, &c)
	}
	p := k.run(t, rounds)
	items := 0
	for _, c := range k.clients {
		for _, r := range c.acked {
			items += r[1] - r[0]
		}
	}
	t.Logf("%d acknowledged items, all remembered", items)
	end(t, p)
}

// respCaller is a client whose items are numbered.
type respCaller struct {
	id               int
	port             string
	key, add, exists string
	next             int
	acked            [][2]int // ranges of items whose answer came
	checked          int      // of acked
}

func (c *respCaller) dial() (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", c.port)
	if err != nil {
		return nil, nil, err
	}
	return conn, bufio.NewReader(conn), conn.SetDeadline(time.Now().Add(5 * time.Minute))
}

// render renders a command with the items of a range.
func (c *respCaller) render(b *strings.Builder, name string, r [2]int) {
	fmt.Fprintf(b, "*%d\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", 2+r[1]-r[0], len(name), name, len(c.key), c.key)
	for n := r[0]; n < r[1]; n++ {
		item := fmt.Sprintf("https://site-%d.example/page/%d", c.id, n)
		fmt.Fprintf(b, "$%d\r\n%s\r\n", len(item), item)
	}
}

// load sends commands until the daemon is killed.
func (c *respCaller) load(*processtest.Process) error {
	conn, in, err := c.dial()
	if err != nil {
		return nil // killed already
	}
	defer conn.Close()
	for {
		r := [2]int{c.next, c.next + 1 + rand.IntN(500)}
		c.next = r[1]
		var text strings.Builder
		if c.add == "BF.MADD" {
			c.render(&text, c.add, r)
		} else {
			for n := r[0]; n < r[1]; n++ {
				c.render(&text, c.add, [2]int{n, n + 1})
			}
		}
		if _, err := conn.Write([]byte(text.String())); err != nil {
			return nil
		}
		if c.add == "BF.MADD" {
			switch line, err := in.ReadString('\n'); {
			case err != nil:
				return nil
			case line != fmt.Sprintf("*%d\r\n", r[1]-r[0]):
				return fmt.Errorf("%s %s: %q", c.add, c.key, line)
			}
		}
		answered := r[0]
		for ; answered < r[1]; answered++ {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			if line != ":1\r\n" && line != ":0\r\n" {
				return fmt.Errorf("%s %s: %q", c.add, c.key, line)
			}
		}
		if answered > r[0] {
			c.acked = append(c.acked, [2]int{r[0], answered})
		}
		if answered < r[1] {
			return nil
		}
	}
}

// check asks for items that were acknowledged.
func (c *respCaller) check(acked [][2]int) error {
	conn, in, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, r := range acked {
		var text strings.Builder
		c.render(&text, c.exists, r)
		if _, err := conn.Write([]byte(text.String())); err != nil {
			return err
		}
		for n := r[0] - 1; n < r[1]; n++ { // the length of the answer is the first line
			line, err := in.ReadString('\n')
			if err != nil {
				return err
			}
			if n < r[0] != (line[0] == '*') || n >= r[0] && line != ":1\r\n" {
				return fmt.Errorf("%s %s: the acknowledged item %d is new again: %q", c.exists, c.key, n, line)
			}
		}
	}
	return nil
}
