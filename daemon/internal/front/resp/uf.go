package resp

import (
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// seconds parses a time.
func (c *conn) seconds(a scan.Span) (s float64, ok bool) {
	s, err := strconv.ParseFloat(c.str(a), 64)
	if err != nil {
		c.wr.fail("ERR value is not a valid float: want seconds")
	}
	return s, err == nil
}

// itemsOf cuts EXPIRE seconds, if the command may have it, and ITEMS from the front of arguments.
// After ITEMS all are items, whatever they look like.
func (c *conn) itemsOf(args []scan.Span, how *terms) (at []scan.Span, ok bool) {
	if how != nil && len(args) >= 2 && c.word(args[0], "EXPIRE") {
		s, ok := c.seconds(args[1])
		if !ok {
			return nil, false
		}
		how.expire = batch.Expire{Seconds: s, Given: true}
		args = args[2:]
	}
	if len(args) > 0 && c.word(args[0], "ITEMS") {
		args = args[1:]
		if len(args) == 0 {
			c.wr.fail("ERR ITEMS: want items after it")
			return nil, false
		}
	}
	return args, true
}

// marked answers the items of the last batch that are marked.
func (c *conn) marked(at []scan.Span, marks []bool) {
	n := 0
	for _, is := range marks {
		if is {
			n++
		}
	}
	c.wr.array(n)
	for i, is := range marks {
		if is {
			c.wr.bulk(c.rd.arg(at[i]))
		}
	}
}

func ufFilter(c *conn, args []scan.Span) {
	var how terms
	if at, ok := c.itemsOf(args[1:], &how); ok && c.judge(batch.Add, c.rd.arg(args[0]), at, how) {
		c.marked(at, c.work.IsNew)
	}
}

func ufCheck(c *conn, args []scan.Span) {
	at, ok := c.itemsOf(args[1:], nil)
	if !ok || !c.judge(batch.Check, c.rd.arg(args[0]), at, terms{}) {
		return
	}
	c.wr.array(len(at))
	for _, is := range c.work.IsNew {
		c.wr.bool(is)
	}
}

func ufReserve(c *conn, args []scan.Span) {
	lease, ok := c.seconds(args[1])
	if !ok {
		return
	}
	at, ok := c.itemsOf(args[2:], nil)
	if !ok || !c.judge(batch.Reserve, c.rd.arg(args[0]), at, terms{Terms: batch.Terms{Lease: lease}}) {
		return
	}
	c.wr.array(3)
	c.wr.text(c.work.Terms.Reservation)
	c.marked(at, c.work.IsNew)
	c.wr.integer(int64(c.work.Held))
}

func ufCommit(c *conn, args []scan.Span)  { c.settle(batch.Commit, args, &terms{}) }
func ufRelease(c *conn, args []scan.Span) { c.settle(batch.Release, args, &terms{}) }

// settle commits or releases items of a reservation; without items, all of it.
func (c *conn) settle(op batch.Op, args []scan.Span, how *terms) {
	with := how
	if op == batch.Release {
		with = nil // has no EXPIRE
	}
	at, ok := c.itemsOf(args[2:], with)
	if !ok {
		return
	}
	how.Terms = batch.Terms{Reservation: c.str(args[1]), All: len(at) == 0}
	if !c.judge(op, c.rd.arg(args[0]), at, *how) {
		return
	}
	c.wr.array(2)
	c.wr.integer(int64(c.work.Committed + c.work.Released))
	c.marked(at, c.work.IsLost)
}

func ufForget(c *conn, args []scan.Span) {
	if at, ok := c.itemsOf(args[1:], nil); ok && c.judge(batch.Forget, c.rd.arg(args[0]), at, terms{}) {
		c.wr.integer(int64(c.work.Forgotten))
	}
}
