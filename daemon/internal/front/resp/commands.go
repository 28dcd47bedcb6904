package resp

import (
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// The scopes of tokens, as for HTTP; "": anybody, even before logging in.
const (
	anybody     = ""
	scopeRead   = "read"
	scopeFilter = "filter"
	scopeForget = "forget"
	scopeAdmin  = "admin"
)

// command is one command, as COMMAND shows it.
type command struct {
	name    string
	arity   int // with the name; negative: at least
	scope   string
	key     bool   // the first argument is a filter's name
	writes  bool   // it changes something
	summary string // a sentence
	run     func(c *conn, args []scan.Span)
	// endsMulti: it is done between MULTI and EXEC, too.
	endsMulti bool
	// merges: pipelined commands of one item become one batch, which each answers.
	merges bool
	each   func(c *conn, key []byte, at []scan.Span)
}

// newCommands returns all commands by name.
func newCommands() map[string]*command {
	byName := map[string]*command{}
	for _, c := range []command{
		{name: "PING", arity: -1, scope: scopeRead, run: ping, summary: "Answers PONG, or its argument."},
		{name: "ECHO", arity: 2, scope: scopeRead, run: echo, summary: "Answers its argument."},
		{name: "QUIT", arity: -1, run: quit, endsMulti: true, summary: "Closes the connection."},
		{name: "HELLO", arity: -1, run: hello, summary: "Chooses the version of the protocol, and may log in."},
		{name: "AUTH", arity: -2, run: auth, summary: "Logs in with a token."},
		{name: "RESET", arity: 1, run: reset, endsMulti: true, summary: "Logs out, and goes back to RESP2."},
		{name: "MULTI", arity: 1, scope: scopeRead, run: multi, summary: "Begins a transaction, of which nothing is done."},
		{name: "EXEC", arity: 1, scope: scopeRead, run: exec, endsMulti: true, summary: "Ends it, with an error."},
		{name: "DISCARD", arity: 1, scope: scopeRead, run: discard, endsMulti: true, summary: "Ends it."},
		{name: "SELECT", arity: 2, scope: scopeRead, run: selectDB, summary: "Chooses the database, of which there is one: 0."},
		{name: "CLIENT", arity: -2, scope: scopeRead, run: client, summary: "ID, SETNAME, GETNAME, SETINFO, INFO, NO-EVICT, NO-TOUCH."},
		{name: "COMMAND", arity: -1, scope: scopeRead, run: describe, summary: "Describes the commands: COUNT, DOCS, INFO."},
		{name: "INFO", arity: -1, scope: scopeRead, run: info, summary: "Describes the server."},
		{name: "CONFIG", arity: -2, scope: scopeRead, run: config, summary: "GET of a few settings that clients ask for."},

		{name: "DBSIZE", arity: 1, scope: scopeRead, run: dbsize, summary: "Counts the filters."},
		{name: "EXISTS", arity: -2, scope: scopeRead, key: true, run: exists, summary: "Counts which of the filters exist."},
		{name: "TYPE", arity: 2, scope: scopeRead, key: true, run: typeOf, summary: "Says of which kind a filter is."},
		{name: "SCAN", arity: -2, scope: scopeRead, run: scanKeys, summary: "Lists the names of filters, in pieces."},
		{name: "KEYS", arity: 2, scope: scopeRead, run: keys, summary: "Lists the names of filters that match a pattern."},
		{name: "DEL", arity: -2, scope: scopeAdmin, key: true, writes: true, run: del, summary: "Drops filters with all their items."},
		{name: "UNLINK", arity: -2, scope: scopeAdmin, key: true, writes: true, run: del, summary: "Drops filters with all their items."},
		{name: "FLUSHALL", arity: -1, scope: scopeAdmin, writes: true, run: flushAll, summary: "Drops all filters, if resp.allow_flush is set."},
		{name: "FLUSHDB", arity: -1, scope: scopeAdmin, writes: true, run: flushAll, summary: "Drops all filters, if resp.allow_flush is set."},

		{name: "BF.RESERVE", arity: -4, scope: scopeAdmin, key: true, writes: true, run: bfReserve, summary: "Makes a filter: key error_rate capacity [EXPANSION n] [NONSCALING]."},
		{name: "BF.ADD", arity: 3, scope: scopeFilter, key: true, writes: true, merges: true, each: bfAdd, summary: "Adds an item; 1 if it is new."},
		{name: "BF.MADD", arity: -3, scope: scopeFilter, key: true, writes: true, run: bfMAdd, summary: "Adds items; 1 for each that is new."},
		{name: "BF.INSERT", arity: -4, scope: scopeFilter, key: true, writes: true, run: bfInsert, summary: "Adds items: key [CAPACITY n] [ERROR e] [EXPANSION n] [NOCREATE] [NONSCALING] ITEMS item..."},
		{name: "BF.EXISTS", arity: 3, scope: scopeRead, key: true, merges: true, each: bfExists, summary: "1 if an item was seen."},
		{name: "BF.MEXISTS", arity: -3, scope: scopeRead, key: true, run: bfMExists, summary: "1 for each item that was seen."},
		{name: "BF.INFO", arity: -2, scope: scopeRead, key: true, run: bfInfo, summary: "Describes a filter, as a whole or one field."},
		{name: "BF.CARD", arity: 2, scope: scopeRead, key: true, run: bfCard, summary: "Counts the items of a filter."},
		{name: "BF.SCANDUMP", arity: 3, scope: scopeRead, key: true, run: bfScanDump, summary: "Reads a filter in pieces: key iterator."},
		{name: "BF.LOADCHUNK", arity: 4, scope: scopeAdmin, key: true, writes: true, run: bfLoadChunk, summary: "Makes a filter from pieces that SCANDUMP gave: key iterator data."},

		{name: "SADD", arity: -3, scope: scopeFilter, key: true, writes: true, merges: true, each: sAddEach, run: sAdd, summary: "Adds items to an exact filter; counts the new ones."},
		{name: "SISMEMBER", arity: 3, scope: scopeRead, key: true, merges: true, each: sIsMember, summary: "1 if an item was seen."},
		{name: "SMISMEMBER", arity: -3, scope: scopeRead, key: true, run: sMIsMember, summary: "1 for each item that was seen."},
		{name: "SREM", arity: -3, scope: scopeForget, key: true, writes: true, run: sRem, summary: "Forgets items; counts those that were seen."},
		{name: "SCARD", arity: 2, scope: scopeRead, key: true, run: sCard, summary: "Counts the items of an exact filter."},

		{name: "UF.FILTER", arity: -3, scope: scopeFilter, key: true, writes: true, run: ufFilter, summary: "Remembers items; answers the new ones: key [EXPIRE seconds] [ITEMS] item..."},
		{name: "UF.CHECK", arity: -3, scope: scopeRead, key: true, run: ufCheck, summary: "Says of each item whether it is new, and remembers nothing: key [ITEMS] item..."},
		{name: "UF.RESERVE", arity: -4, scope: scopeFilter, key: true, writes: true, run: ufReserve, summary: "Reserves new items: key seconds [ITEMS] item...; answers the reservation, the items, and how many others hold."},
		{name: "UF.COMMIT", arity: -3, scope: scopeFilter, key: true, writes: true, run: ufCommit, summary: "Makes reserved items seen: key reservation [EXPIRE seconds] [[ITEMS] item...]; answers how many, and the lost ones."},
		{name: "UF.RELEASE", arity: -3, scope: scopeFilter, key: true, writes: true, run: ufRelease, summary: "Makes reserved items new again: key reservation [[ITEMS] item...]; answers how many, and the lost ones."},
		{name: "UF.FORGET", arity: -3, scope: scopeForget, key: true, writes: true, run: ufForget, summary: "Makes seen items new again; counts them: key [ITEMS] item..."},
	} {
		byName[c.name] = &c
	}
	return byName
}

// find finds a command by its name, in any case of letters.
func (s *Server) find(name []byte) *command {
	var upper [16]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, b := range name {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	return s.commands[string(upper[:len(name)])]
}

// newFamilies returns which commands filters answer to besides UF.*, by their kind.
func newFamilies() map[string]string {
	of := map[string]string{}
	for _, k := range configs.Kinds() {
		of[k.Name] = k.Commands
	}
	return of
}

// family returns which commands a filter answers to besides UF.*.
func (c *conn) family(f *engine.Filter) string { return c.s.families[f.Kind] }
