package resp

import (
	"cmp"
	"path"
	"strconv"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// refuseID returns an error for a key that is a number: no filter has such a name. Engine.Find takes
// it for the id of a filter, which a client of Redis does not mean.
func refuseID(key []byte) error {
	if len(key) == 0 || key[0] >= 'A' {
		return nil
	}
	return &engine.UnknownFilterError{Ref: string(key)}
}

// filterOf finds the filter that an argument names; nil: there is none. It answers other errors.
func (c *conn) filterOf(a scan.Span) (f *engine.Filter, ok bool) {
	err := refuseID(c.rd.arg(a))
	if err == nil {
		f, err = c.s.opt.Engine.Find(c.s.ctx, c.str(a))
	}
	switch {
	case isUnknown(err):
		return nil, true
	case err != nil:
		c.error(err)
		return nil, false
	}
	return f, true
}

func dbsize(c *conn, _ []scan.Span) { c.wr.integer(int64(len(c.s.opt.Engine.Filters()))) }

func exists(c *conn, args []scan.Span) {
	n := 0
	for _, a := range args {
		f, ok := c.filterOf(a)
		if !ok {
			return
		}
		if f != nil {
			n++
		}
	}
	c.wr.integer(int64(n))
}

func typeOf(c *conn, args []scan.Span) {
	switch f, ok := c.filterOf(args[0]); {
	case !ok:
	case f == nil:
		c.wr.simple("none")
	default:
		c.wr.simple(c.typeName(f))
	}
}

// typeName is what clients know a kind of filter as.
func (c *conn) typeName(f *engine.Filter) string {
	names := map[string]string{configs.CommandsBF: "MBbloom--", configs.CommandsSet: "set"}
	return cmp.Or(names[c.family(f)], f.Kind)
}

// matches reports whether a name matches a pattern of Redis; names have no slash.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func keys(c *conn, args []scan.Span) {
	pattern := c.str(args[0])
	var found []string
	for _, f := range c.s.opt.Engine.Filters() {
		if matches(pattern, f.Name) {
			found = append(found, f.Name)
		}
	}
	c.texts(found)
}

func (c *conn) texts(all []string) {
	c.wr.array(len(all))
	for _, s := range all {
		c.wr.text(s)
	}
}

// scanKeys is SCAN. The cursor is the least id of a filter that was not looked at yet, so that a
// filter that exists all the time is listed once, whatever is made and dropped meanwhile.
func scanKeys(c *conn, args []scan.Span) {
	from, err := strconv.ParseUint(c.str(args[0]), 10, 63)
	if err != nil {
		c.wr.fail("ERR invalid cursor")
		return
	}
	pattern, kind, count := "*", "", 10
	for rest := args[1:]; len(rest) > 0; rest = rest[2:] {
		switch {
		case len(rest) < 2:
			c.wr.fail("ERR syntax error")
			return
		case c.word(rest[0], "MATCH"):
			pattern = c.str(rest[1])
		case c.word(rest[0], "TYPE"):
			kind = c.str(rest[1])
		case c.word(rest[0], "COUNT"):
			n, ok := number(c.rd.arg(rest[1]))
			if !ok || n < 1 {
				c.wr.fail("ERR value is not an integer or out of range")
				return
			}
			count = n
		default:
			c.wr.fail("ERR syntax error")
			return
		}
	}
	var found []string
	next := uint64(0)
	for _, f := range c.s.opt.Engine.Filters() {
		switch {
		case uint64(f.ID) < from:
			continue
		case count == 0:
			next = uint64(f.ID)
		case matches(pattern, f.Name) && (kind == "" || kind == c.typeName(f)):
			found = append(found, f.Name)
		}
		if next != 0 {
			break
		}
		count--
	}
	c.wr.array(2)
	c.wr.text(strconv.FormatUint(next, 10))
	c.texts(found)
}

func del(c *conn, args []scan.Span) {
	n := 0
	for _, a := range args {
		f, ok := c.filterOf(a)
		if !ok {
			return
		}
		if f == nil {
			continue
		}
		if !c.drop(f.Name) {
			return
		}
		n++
	}
	c.wr.integer(int64(n))
}

// drop drops a filter; it answers if it fails.
func (c *conn) drop(name string) bool {
	err := c.s.opt.Engine.Drop(c.s.ctx, name)
	if err != nil && !isUnknown(err) { // another caller was faster
		c.error(err)
		return false
	}
	c.s.opt.Log.Info("admin action", "action", "drop", "filter", name, "protocol", "resp", "remote", c.raw.RemoteAddr().String(), "outcome", "done")
	return true
}

func flushAll(c *conn, _ []scan.Span) {
	if !c.s.opt.AllowFlush {
		c.wr.fail("ERR all filters would be dropped; if that is meant, set resp.allow_flush in the daemon's settings, or drop single ones with DEL")
		return
	}
	for _, f := range c.s.opt.Engine.Filters() {
		if !c.drop(f.Name) {
			return
		}
	}
	c.wr.ok()
}
