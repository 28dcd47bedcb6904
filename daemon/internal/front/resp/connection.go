package resp

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// actsAs is the version of Redis that clients are told, which some of them need.
const actsAs = "7.2.0"

func ping(c *conn, args []scan.Span) {
	switch len(args) {
	case 0:
		c.wr.simple("PONG")
	case 1:
		c.wr.bulk(c.rd.arg(args[0]))
	default:
		c.wr.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func echo(c *conn, args []scan.Span) { c.wr.bulk(c.rd.arg(args[0])) }

func quit(c *conn, _ []scan.Span) {
	c.wr.ok()
	c.quit = true
}

func hello(c *conn, args []scan.Span) {
	proto, rest := c.wr.proto, args
	if len(args) > 0 {
		n, ok := number(c.rd.arg(args[0]))
		if !ok {
			c.wr.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.wr.fail("NOPROTO unsupported protocol version")
			return
		}
		proto, rest = n, args[1:]
	}
	name := c.name
	for len(rest) > 0 {
		switch {
		case len(rest) >= 3 && c.word(rest[0], "AUTH"):
			if !c.logIn(c.str(rest[1]), c.str(rest[2])) {
				return
			}
			rest = rest[3:]
		case len(rest) >= 2 && c.word(rest[0], "SETNAME"):
			name, rest = c.str(rest[1]), rest[2:]
		default:
			c.wr.fail("ERR Syntax error in HELLO option '" + shortened(c.rd.arg(rest[0])) + "'")
			return
		}
	}
	if c.s.opt.Access.AsksTokens() && c.secret == "" {
		c.wr.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if !isName(name) {
		c.wr.fail(badName)
		return
	}
	c.wr.proto, c.name = proto, name
	c.wr.dict(7)
	for _, pair := range [][2]string{{"server", "redis"}, {"version", actsAs}} { // clients look for redis here
		c.wr.text(pair[0])
		c.wr.text(pair[1])
	}
	c.wr.text("proto")
	c.wr.integer(int64(proto))
	c.wr.text("id")
	c.wr.integer(c.id)
	for _, pair := range [][2]string{{"mode", "standalone"}, {"role", "master"}} {
		c.wr.text(pair[0])
		c.wr.text(pair[1])
	}
	c.wr.text("modules")
	c.wr.array(0)
}

// isName reports whether a client may have a name, which its connection keeps and CLIENT INFO shows.
func isName(name string) bool {
	return len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

func auth(c *conn, args []scan.Span) {
	switch {
	case len(args) > 2:
		c.wr.fail("ERR syntax error")
	case !c.s.opt.Access.AsksTokens():
		c.wr.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case len(args) == 1 && c.logIn("default", c.str(args[0])), len(args) == 2 && c.logIn(c.str(args[0]), c.str(args[1])):
		c.wr.ok()
	}
}

// logIn answers if it fails. The user is the name of the token, or default for any.
func (c *conn) logIn(user, secret string) bool {
	if !c.s.opt.Access.AsksTokens() {
		return true
	}
	name, err := c.s.opt.Access.Token(c.call(scopeRead), secret)
	if p := problem.Of(err); err != nil && p.Code != problem.Forbidden || user != "default" && user != name {
		if p.Code == problem.TooManyRefusals {
			c.wr.fail("WRONGPASS " + p.Detail)
		} else {
			c.wr.fail("WRONGPASS invalid username-password pair or user is disabled.")
		}
		return false
	}
	if c.held == 0 { // what is held was taken for somebody who had not logged in
		c.holder.Token = name
	}
	c.secret, c.asked, c.scopes = secret, time.Now(), map[string]bool{scopeRead: err == nil}
	c.rd.bytes, c.rd.count = c.s.opt.Limits.CommandBytes, c.s.opt.Limits.Items+16
	return true
}

func reset(c *conn, _ []scan.Span) {
	c.wr.proto, c.name = 2, ""
	c.logOut()
	c.wr.simple("RESET")
}

// logOut makes the client a stranger, if tokens are wanted.
func (c *conn) logOut() {
	c.secret, c.multi = "", false
	if c.s.opt.Access.AsksTokens() {
		c.rd.bytes, c.rd.count = strangerBytes, strangerArgs
	}
}

// multi begins a transaction that fails. If MULTI were refused, the commands that a client has sent behind it
// would be done, and their items be seen, while the client tells its program that all has failed.
func multi(c *conn, _ []scan.Span) {
	c.multi = true
	c.wr.ok()
}

func exec(c *conn, _ []scan.Span) {
	if !c.multi {
		c.wr.fail("ERR EXEC without MULTI")
		return
	}
	c.multi = false
	c.wr.fail("EXECABORT Transaction discarded: this server has none; send the commands without MULTI and EXEC, in a pipeline")
}

func discard(c *conn, _ []scan.Span) {
	if !c.multi {
		c.wr.fail("ERR DISCARD without MULTI")
		return
	}
	c.multi = false
	c.wr.ok()
}

func selectDB(c *conn, args []scan.Span) {
	if c.str(args[0]) != "0" {
		c.wr.fail("ERR DB index is out of range")
		return
	}
	c.wr.ok()
}

func client(c *conn, args []scan.Span) {
	switch sub, rest := args[0], args[1:]; {
	case c.word(sub, "ID") && len(rest) == 0:
		c.wr.integer(c.id)
	case c.word(sub, "GETNAME") && len(rest) == 0:
		if c.name == "" {
			c.wr.null()
		} else {
			c.wr.text(c.name)
		}
	case c.word(sub, "SETNAME") && len(rest) == 1:
		name := c.str(rest[0])
		if !isName(name) {
			c.wr.fail(badName)
			return
		}
		c.name = name
		c.wr.ok()
	case c.word(sub, "SETINFO") && len(rest) == 2, c.word(sub, "NO-EVICT", "NO-TOUCH") && len(rest) == 1:
		c.wr.ok()
	case c.word(sub, "INFO") && len(rest) == 0:
		c.wr.text(fmt.Sprintf("id=%d addr=%s laddr=%s name=%s db=0 resp=%d\n", c.id, c.raw.RemoteAddr(), c.raw.LocalAddr(), c.name, c.wr.proto))
	default:
		c.wr.fail("ERR unknown subcommand or wrong number of arguments for '" + shortened(c.rd.arg(sub)) + "'. Try CLIENT ID, SETNAME, GETNAME, SETINFO, INFO, NO-EVICT.")
	}
}

// describe is COMMAND.
func describe(c *conn, args []scan.Span) {
	names := slices.Sorted(maps.Keys(c.s.commands))
	named := func(rest []scan.Span) []string {
		if len(rest) == 0 {
			return names
		}
		var some []string
		for _, a := range rest {
			some = append(some, strings.ToUpper(c.str(a)))
		}
		return some
	}
	switch {
	case len(args) == 0:
		c.describeAll(names)
	case c.word(args[0], "COUNT") && len(args) == 1:
		c.wr.integer(int64(len(names)))
	case c.word(args[0], "INFO"):
		c.describeAll(named(args[1:]))
	case c.word(args[0], "DOCS"):
		var known []string
		for _, name := range named(args[1:]) {
			if c.s.commands[name] != nil {
				known = append(known, name)
			}
		}
		c.wr.dict(len(known))
		for _, name := range known {
			c.wr.text(strings.ToLower(name))
			c.wr.dict(2)
			c.wr.text("summary")
			c.wr.text(c.s.commands[name].summary)
			c.wr.text("group")
			c.wr.text("bf")
		}
	default:
		c.wr.fail("ERR unknown subcommand '" + shortened(c.rd.arg(args[0])) + "'. Try COMMAND COUNT, DOCS, INFO.")
	}
}

func (c *conn) describeAll(names []string) {
	c.wr.array(len(names))
	for _, name := range names {
		cmd := c.s.commands[name]
		if cmd == nil {
			c.wr.null()
			continue
		}
		kind, key := "readonly", int64(0)
		if cmd.writes {
			kind = "write"
		}
		if cmd.key {
			key = 1
		}
		c.wr.array(6)
		c.wr.text(strings.ToLower(name))
		c.wr.integer(int64(cmd.arity))
		c.wr.array(1)
		c.wr.simple(kind)
		for range 3 {
			c.wr.integer(key)
		}
	}
}

func info(c *conn, _ []scan.Span) {
	up := int64(time.Since(c.s.started).Seconds())
	filters := len(c.s.opt.Engine.Filters())
	c.s.mu.Lock()
	connected := len(c.s.conns)
	c.s.mu.Unlock()
	c.wr.text(strings.Join([]string{
		"# Server", "redis_version:" + actsAs, "redis_mode:standalone", "urifilter_version:" + c.s.opt.Version,
		"os:" + runtime.GOOS, "arch_bits:" + strconv.Itoa(strconv.IntSize), "uptime_in_seconds:" + strconv.FormatInt(up, 10),
		"", "# Clients", "connected_clients:" + strconv.Itoa(connected),
		"", "# Replication", "role:master", "connected_slaves:0",
		"", "# Cluster", "cluster_enabled:0",
		"", "# Modules", "module:name=bf,ver=20612,api=1,filters=0",
		"", "# Keyspace", fmt.Sprintf("db0:keys=%d,expires=0,avg_ttl=0", filters), "",
	}, "\r\n"))
}

// config answers the few settings that clients look at, as a Redis would have to be set to keep
// what the daemon keeps.
func config(c *conn, args []scan.Span) {
	if !c.word(args[0], "GET") || len(args) < 2 {
		c.wr.fail("ERR only CONFIG GET is supported; settings are in the daemon's file, see `urifilter config show`")
		return
	}
	settings := map[string]string{"maxmemory": "0", "maxmemory-policy": "noeviction", "appendonly": "yes", "save": "", "databases": "1", "timeout": "0"}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if slices.ContainsFunc(args[1:], func(a scan.Span) bool { return matches(strings.ToLower(c.str(a)), name) }) {
			found = append(found, name)
		}
	}
	c.wr.dict(len(found))
	for _, name := range found {
		c.wr.text(name)
		c.wr.text(settings[name])
	}
}
