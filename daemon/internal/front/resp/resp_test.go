package resp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/front/resp"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// rig is a server of both protocols over one engine on the embedded store.
type rig struct {
	*apitest.Rig
	front *resp.Server
	addr  string
}

type option struct {
	tokens bool
	cert   *tls.Config
	limits resp.Limits
	store  engine.Store // nil: the embedded one
}

func newRig(t testing.TB, change ...func(*option)) *rig {
	t.Helper()
	o := option{limits: resp.Limits{Items: 20_000, ItemBytes: 64 << 10, CommandBytes: 8 << 20, Timeout: time.Minute}}
	for _, f := range change {
		f(&o)
	}
	log := slog.New(slog.DiscardHandler)
	if o.store == nil {
		store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		o.store = store
	}
	t.Cleanup(func() {
		if err := o.store.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{}
	if o.tokens {
		r.Rig = apitest.Over(t, o.store, apitest.WithTokens)
	} else {
		r.Rig = apitest.Over(t, o.store)
	}
	r.front = resp.New(resp.Options{
		Engine: r.Engine, Judge: r.API.Judge(), Access: r.API.Access(), Bodies: r.API.Bodies(), HTTP: r.HTTP.URL,
		Limits: o.limits, TLS: o.cert, Version: "1.2.3", Log: log, Registry: prometheus.NewRegistry(), AllowFlush: true,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.front.Serve(l, o.cert != nil) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if cut := r.front.Drain(time.Minute); cut > 0 {
			t.Errorf("%d connections were cut off", cut)
		}
	})
	return r
}

// dial opens a connection for a test that speaks the protocol itself.
func (r *rig) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// exchange sends text and returns all answers until the server closes the connection, which it
// does after QUIT.
func (r *rig) exchange(t *testing.T, text string) string {
	t.Helper()
	c := r.dial(t)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, text)
		sent <- err
	}()
	answer, err := io.ReadAll(c)
	if err != nil && len(answer) == 0 {
		t.Fatal(err)
	}
	c.Close()
	<-sent
	return string(answer)
}

// command is a command in the form in which clients send it.
func command(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// inWords splits a command at blanks.
func inWords(line string) string { return command(strings.Fields(line)...) }

// What each command answers, in both versions of the protocol. Those of RedisBloom are as it has
// them.
var answers = []struct{ command, two, three string }{
	{"PING", "+PONG", ""},
	{"ping hello", "$5 hello", ""},
	{"ECHO x", "$1 x", ""},
	{"SELECT 0", "+OK", ""},
	{"SELECT 1", "-ERR DB index is out of range", ""},
	{"NOPE a b", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' ", ""},
	{"PING a b", "-ERR wrong number of arguments for 'ping' command", ""},
	{"GET", "-ERR unknown command 'GET', with args beginning with: ", ""},
	{"BF.ADD a", "-ERR wrong number of arguments for 'bf.add' command", ""},

	{"BF.RESERVE a 0.001 2000", "+OK", ""},
	{"BF.RESERVE a 0.001 2000", "-ERR item exists", ""},
	{"BF.RESERVE a 0.01 2000", "-ERR item exists", ""},
	{"BF.RESERVE b x 2000", "-ERR bad error rate", ""},
	{"BF.RESERVE b 1 2000", "-ERR error rate must be in the range (0.000000, 1.000000)", ""},
	{"BF.RESERVE b 0 2000", "-ERR error rate must be in the range (0.000000, 1.000000)", ""},
	{"BF.RESERVE b 0.1 x", "-ERR bad capacity", ""},
	{"BF.RESERVE b 0.1 0", "-ERR capacity must be in the range [1, 1073741824]", ""},
	{"BF.RESERVE b 0.1 1073741825", "-ERR capacity must be in the range [1, 1073741824]", ""},
	{"BF.RESERVE b 0.1 10 EXPANSION", "-ERR no expansion", ""},
	{"BF.RESERVE b 0.1 10 EXPANSION x", "-ERR bad expansion", ""},
	{"BF.RESERVE b 0.1 10 NONSCALING EXPANSION 3", "-Nonscaling filters cannot expand", ""},
	{"BF.RESERVE fixed 0.1 3 NONSCALING", "+OK", ""},
	{"BF.RESERVE half 0.9 100", "+OK", ""}, // cut to 0.25
	{"BF.ADD a 1", ":1", "#t"},
	{"BF.ADD a 1", ":0", "#f"},
	{"BF.MADD a 1 2 2 3", "*4 :0 :1 :0 :1", "*4 #f #t #f #t"},
	{"BF.EXISTS a 1", ":1", "#t"},
	{"BF.EXISTS a 9", ":0", "#f"},
	{"BF.MEXISTS a 1 9", "*2 :1 :0", "*2 #t #f"},
	{"BF.EXISTS none 1", ":0", "#f"},
	{"BF.MEXISTS none 1 2", "*2 :0 :0", "*2 #f #f"},
	{"BF.INFO none", "-ERR not found", ""},
	{"BF.INFO a", "*10 +Capacity :2000 +Size :4056 +Number of filters :1 +Number of items inserted :3 +Expansion rate :2",
		"%5 +Capacity :2000 +Size :4056 +Number of filters :1 +Number of items inserted :3 +Expansion rate :2"},
	{"BF.INFO a SIZE", "*1 :4056", "%1 +Size :4056"},
	{"BF.INFO fixed EXPANSION", "*1 $-1", "%1 +Expansion rate _"},
	{"BF.INFO a NONE", "-Invalid information value", ""},
	{"BF.CARD a", ":3", ""},
	{"BF.CARD none", ":0", ""},
	{"BF.MADD fixed 1 2 3", "*3 :1 :1 :1", "*3 #t #t #t"},
	{"BF.MADD fixed 1 2", "*2 :0 :0", "*2 #f #f"},
	{"BF.MADD fixed 1 4 5", "*2 :0 -ERR non scaling filter is full", "*2 #f -ERR non scaling filter is full"},
	{"BF.ADD fixed 4", "-ERR non scaling filter is full", ""},
	{"BF.ADD made 1", ":1", "#t"},
	{"BF.INFO made SIZE", "*1 :240", "%1 +Size :240"},
	{"BF.INSERT ins NOCREATE ITEMS 1", "-ERR not found", ""},
	{"BF.INSERT ins CAPACITY 10 ERROR 0.001 EXPANSION 4 ITEMS 1 2", "*2 :1 :1", "*2 #t #t"},
	{"BF.INFO ins EXPANSION", "*1 :4", "%1 +Expansion rate :4"},
	{"BF.INSERT ins2 ERROR x ITEMS 1", "-Bad error rate", ""},
	{"BF.INSERT ins2 CAPACITY 0 ITEMS 1", "-Bad capacity", ""},
	{"BF.INSERT ins2 EXPANSION 0 ITEMS 1", "-Bad expansion", ""},
	{"BF.INSERT ins2 NONE ITEMS 1", "-Unknown argument received", ""},
	{"BF.INSERT ins2 ITEMS", "-ERR wrong number of arguments for 'bf.insert' command", ""},
	{"BF.ADD uri 1", ":1", "#t"}, // a filter of this daemon's own layout
	{"BF.SCANDUMP uri 0", "-ERR filter uri is of the kind bloom, which has no form that RedisBloom knows; only filters that BF.RESERVE makes have", ""},
	{"BF.SCANDUMP a x", "-Second argument must be numeric", ""},
	{"BF.LOADCHUNK dump 1 x", "-ERR received bad data", ""},
	{"BF.LOADCHUNK dump 9 x", "-ERR not found", ""},
	{"BF.LOADCHUNK a 9 x", "-ERR received bad data", ""},
	{"BF.LOADCHUNK a x x", "-ERR Second argument must be numeric", ""},

	{"SADD s 1 2 2", ":2", ""},
	{"SADD s 3", ":1", ""},
	{"SADD s 3", ":0", ""},
	{"SADD spider:dupefilter 3", ":1", ""}, // as scrapy-redis names it
	{"SISMEMBER s 1", ":1", ""},
	{"SISMEMBER s 9", ":0", ""},
	{"SISMEMBER none 9", ":0", ""},
	{"SMISMEMBER s 1 9", "*2 :1 :0", ""},
	{"SCARD s", ":3", ""},
	{"SCARD none", ":0", ""},
	{"SREM s 1 9", ":1", ""},
	{"SREM none 1", ":0", ""},
	{"SADD a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
	{"SCARD a", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
	{"SMISMEMBER a 1 2", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
	{"BF.ADD s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
	{"BF.CARD s", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
	{"BF.INFO s", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""},
	{"SADD 1+1 x", `-ERR invalid_filter: name: "1+1": want a letter or _, then letters, digits, _ . : -, 64 at most`, ""},

	{"BF.ADD 1 x", `-ERR invalid_filter: name: "1": want a letter or _, then letters, digits, _ . : -, 64 at most`, ""}, // uri has this id
	{"SADD +1 x", `-ERR invalid_filter: name: "+1": want a letter or _, then letters, digits, _ . : -, 64 at most`, ""},
	{"BF.EXISTS 1 1", ":0", "#f"},
	{"UF.FILTER 1 x", `-ERR unknown_filter: filter "1": unknown`, ""},
	{"EXISTS 1", ":0", ""},
	{"TYPE 1", "+none", ""},
	{"DEL 1", ":0", ""},
	{"BF.INFO 1", "-ERR not found", ""},

	{"EXEC", "-ERR EXEC without MULTI", ""},
	{"DISCARD", "-ERR DISCARD without MULTI", ""},

	{"UF.FILTER ip 1 2 1", "*2 $1 1 $1 2", ""},
	{"UF.FILTER ip ITEMS ITEMS EXPIRE", "*2 $5 ITEMS $6 EXPIRE", ""},
	{"UF.CHECK ip 1 7", "*2 :0 :1", "*2 #f #t"},
	{"UF.FILTER ip EXPIRE 5 1", "-ERR expire_not_supported: filter ip is of the kind bloom", ""},
	{"UF.FILTER ip EXPIRE x 1", "-ERR value is not a valid float: want seconds", ""},
	{"UF.FORGET s 2", ":1", ""},
	{"UF.FORGET ip 2", "-ERR forget_not_supported: filter ip: is of the kind bloom, which cannot forget single items (a bit of a bit-map may stand for many of them); filters of the kinds exact and timing can, and any filter can be cleared as a whole", ""},
	{"UF.COMMIT s 00000000000000000000000000000001", "-ERR unknown_reservation: ", ""},
	{"UF.RELEASE s xyz", "-ERR unknown_reservation: ", ""},

	{"TYPE a", "+MBbloom--", ""},
	{"TYPE s", "+set", ""},
	{"TYPE none", "+none", ""},
	{"EXISTS a s none a", ":3", ""},
	{"KEYS spider:*", "*1 $17 spider:dupefilter", ""},
	{"SCAN 0 MATCH in? COUNT 100", "*2 $1 0 *1 $3 ins", ""},
	{"SCAN 0 MATCH * COUNT 100 TYPE set", "*2 $1 0 *2 $1 s $17 spider:dupefilter", ""},
	{"SCAN x", "-ERR invalid cursor", ""},
	{"DEL ins none", ":1", ""},
	{"UNLINK spider:dupefilter", ":1", ""},
	{"CLIENT SETNAME me", "+OK", ""},
	{"CLIENT GETNAME", "$2 me", ""},
	{"CLIENT SETINFO lib-name x", "+OK", ""},
	{"CLIENT NO-EVICT on", "+OK", ""},
	{"CLIENT KILL x", "-ERR unknown subcommand or wrong number of arguments for 'KILL'. Try CLIENT ID, SETNAME, GETNAME, SETINFO, INFO, NO-EVICT.", ""},
	{"CONFIG GET maxmemory-policy", "*2 $16 maxmemory-policy $10 noeviction", "%1 $16 maxmemory-policy $10 noeviction"},
	{"CONFIG SET a b", "-ERR only CONFIG GET is supported; settings are in the daemon's file, see `urifilter config show`", ""},
	{"COMMAND INFO bf.add nope", "*2 *6 $6 bf.add :3 *1 +write :1 :1 :1 $-1", "*2 *6 $6 bf.add :3 *1 +write :1 :1 :1 _"},
	{"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", ""},
	{"HELLO 4", "-NOPROTO unsupported protocol version", ""},
	{"FLUSHALL", "+OK", ""},
	{"DBSIZE", ":0", ""},
}

func TestAnswers(t *testing.T) {
	for proto, hello := range map[int]string{2: "", 3: "HELLO 3"} {
		t.Run(fmt.Sprint("RESP", proto), func(t *testing.T) {
			r := newRig(t)
			c := r.dial(t)
			read := func(until string) string {
				got, piece := "", make([]byte, 4096)
				for !strings.HasSuffix(got, until) {
					n, err := c.Read(piece)
					if err != nil {
						t.Fatalf("%v after %q", err, got)
					}
					got += string(piece[:n])
				}
				return strings.TrimSuffix(got, until)
			}
			if hello != "" {
				fmt.Fprint(c, inWords(hello), command("ECHO", "end"))
				if got := read("$3\r\nend\r\n"); !strings.Contains(got, "$5\r\nproto\r\n:3\r\n") {
					t.Fatalf("HELLO 3: %q", got)
				}
			}
			for _, a := range answers {
				want := a.two
				if proto == 3 && a.three != "" {
					want = a.three
				}
				if _, err := fmt.Fprint(c, inWords(a.command), command("ECHO", "end")); err != nil {
					t.Fatal(err)
				}
				got := strings.TrimSuffix(strings.ReplaceAll(read("$3\r\nend\r\n"), "\r\n", " "), " ")
				got = strings.TrimSuffix(got, " ")
				want = strings.TrimSuffix(want, " ")
				if got != want && !(strings.HasSuffix(want, ":") && strings.HasPrefix(got, want)) {
					t.Errorf("%s\n got %q\nwant %q", a.command, got, want)
				}
			}
		})
	}
}

// Of a transaction nothing is done. A client sends all of it at once, and tells its program of one error.
func TestTransactionsFail(t *testing.T) {
	r := newRig(t)
	const refused = "-ERR this server has no transactions: nothing between MULTI and EXEC is done; send the commands without these, in a pipeline\r\n"
	const aborted = "-EXECABORT Transaction discarded: this server has none; send the commands without MULTI and EXEC, in a pipeline\r\n"
	add := command("BF.ADD", "uri", "a")
	for _, test := range []struct{ text, want string }{
		{command("MULTI") + add + add + command("DEL", "uri") + command("MULTI") + command("EXEC"), "+OK\r\n" + strings.Repeat(refused, 4) + aborted},
		{command("MULTI") + add + command("DISCARD"), "+OK\r\n" + refused + "+OK\r\n"},
		{command("MULTI") + add + command("RESET"), "+OK\r\n" + refused + "+RESET\r\n"},
		{command("MULTI") + add, "+OK\r\n" + refused},
		{command("MULTI") + command("EXEC") + add, "+OK\r\n" + aborted + ":1\r\n"},
	} {
		if got := r.exchange(t, test.text+command("QUIT")); got != test.want+"+OK\r\n" {
			t.Errorf("%q: got\n%s\nwant\n%s", test.text, got, test.want)
		}
	}
}

// Items are any bytes; those of the same bytes are the same item by HTTP.
func TestItemsAreBytes(t *testing.T) {
	r := newRig(t)
	if got := r.exchange(t, command("UF.FILTER", "uri", "a\r\nb", "\x00\xff", "ü")+command("UF.FILTER", "uri", "")+command("QUIT")); got !=
		"*3\r\n$4\r\na\r\nb\r\n$2\r\n\x00\xff\r\n$2\r\nü\r\n-ERR empty_item: An item is an empty string.\r\n+OK\r\n" {
		t.Errorf("got %q", got)
	}
	if a := r.Post("/api/v1/check", `{"filter":"uri","items":["a\r\nb","ü","new"]}`); !strings.Contains(a.Body, `{"new":[false,false,true]`) {
		t.Errorf("by HTTP: %s", a.Body)
	}
}

// A reservation as a whole: reserved by one, held for others, committed, and released.
func TestReservations(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	c := r.client(t, 2)
	must := func(args ...any) any {
		t.Helper()
		v, err := c.Do(ctx, args...).Result()
		if err != nil {
			t.Fatal(args, err)
		}
		return v
	}
	must("SADD", "jobs", "old")
	first := must("UF.RESERVE", "jobs", "60", "a", "b", "old").([]any)
	if fmt.Sprint(first[1:]) != "[[a b] 0]" {
		t.Fatalf("reserved %v", first)
	}
	if second := must("UF.RESERVE", "jobs", "60", "b", "c").([]any); fmt.Sprint(second[1:]) != "[[c] 1]" {
		t.Errorf("the other reserved %v", second)
	}
	if got := must("UF.COMMIT", "jobs", first[0], "a", "c"); fmt.Sprint(got) != "[1 [c]]" {
		t.Errorf("committed %v", got)
	}
	if got := must("UF.RELEASE", "jobs", first[0]); fmt.Sprint(got) != "[1 []]" {
		t.Errorf("released %v", got)
	}
	if got := must("SMISMEMBER", "jobs", "a", "b"); fmt.Sprint(got) != "[1 0]" {
		t.Errorf("afterwards %v", got)
	}
}

func (r *rig) client(t *testing.T, proto int) *redis.Client {
	t.Helper()
	return redistest.Client(t, redis.Options{Addr: r.addr, Protocol: proto})
}

// go-redis drives the commands of RedisBloom by its own methods, in both versions.
func TestGoRedis(t *testing.T) {
	r := newRig(t)
	for _, proto := range []int{2, 3} {
		ctx, c, key := t.Context(), r.client(t, proto), fmt.Sprint("crawl", proto)
		check := func(what string, got, want any, err error) {
			t.Helper()
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("RESP%d: %s: got %v, %v; want %v", proto, what, got, err, want)
			}
		}
		ok, err := c.BFReserveExpansion(ctx, key, 0.001, 1000, 3).Result()
		check("BF.RESERVE", ok, "OK", err)
		is, err := c.BFAdd(ctx, key, "a").Result()
		check("BF.ADD", is, true, err)
		all, err := c.BFMAdd(ctx, key, "a", "b").Result()
		check("BF.MADD", all, []bool{false, true}, err)
		all, err = c.BFMExists(ctx, key, "b", "z").Result()
		check("BF.MEXISTS", all, []bool{true, false}, err)
		all, err = c.BFInsert(ctx, key+"i", &redis.BFInsertOptions{Capacity: 50, Error: 0.1}, "x", "x").Result()
		check("BF.INSERT", all, []bool{true, false}, err)
		n, err := c.BFCard(ctx, key).Result()
		check("BF.CARD", n, 2, err)
		info, err := c.BFInfo(ctx, key).Result()
		check("BF.INFO", []int64{info.Capacity, info.Filters, info.ItemsInserted, info.ExpansionRate}, []int64{1000, 1, 2, 3}, err)
		size, err := c.BFInfoSize(ctx, key).Result()
		check("BF.INFO SIZE", size.Size, info.Size, err)
		dump, err := c.BFScanDump(ctx, key, 0).Result()
		for err == nil && dump.Iter != 0 {
			_, err = c.BFLoadChunk(ctx, key+"copy", dump.Iter, dump.Data).Result()
			if err == nil {
				dump, err = c.BFScanDump(ctx, key, dump.Iter).Result()
			}
		}
		check("a dump", nil, nil, err)
		all, err = c.BFMExists(ctx, key+"copy", "a", "b", "z").Result()
		check("a copy", all, []bool{true, true, false}, err)
		names, _, err := c.ScanType(ctx, 0, key+"*", 100, "MBbloom--").Result()
		check("SCAN", len(names), 3, err)
	}
}

// A dump is the same filter: every member, and every false positive; it is there after a restart.
func TestDumpIsLoadedWhole(t *testing.T) {
	r := newRig(t)
	ctx, c := t.Context(), r.client(t, 2)
	items := func(site string, n int) (all []any) {
		for i := range n {
			all = append(all, fmt.Sprintf("https://%s.example/%d", site, i))
		}
		return all
	}
	for from := 0; from < 100_000; from += 10_000 {
		if err := c.BFMAdd(ctx, "a", items("in", from+10_000)[from:]...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var chunks []redis.ScanDump
	for iterator := int64(0); ; {
		d, err := c.BFScanDump(ctx, "a", iterator).Result()
		if err != nil {
			t.Fatal(err)
		}
		if d.Iter == 0 {
			break
		}
		chunks, iterator = append(chunks, d), d.Iter
	}
	for i, d := range chunks {
		if err := c.BFLoadChunk(ctx, "b", d.Iter, d.Data).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Lookup("b"); (err == nil) != (i == len(chunks)-1) {
			t.Fatalf("after part %d of %d the filter: %v", i+1, len(chunks), err)
		}
	}
	if err := c.BFLoadChunk(ctx, "b", chunks[0].Iter, chunks[0].Data).Err(); err == nil || err.Error() != "ERR item exists" {
		t.Errorf("loaded over a filter: %v", err)
	}
	for _, site := range []string{"in", "out"} {
		for from := 0; from < 100_000; from += 10_000 {
			a, err := c.BFMExists(ctx, "a", items(site, from+10_000)[from:]...).Result()
			b, err2 := c.BFMExists(ctx, "b", items(site, from+10_000)[from:]...).Result()
			if err != nil || err2 != nil || !slices.Equal(a, b) || site == "in" && slices.Contains(b, false) {
				t.Fatalf("%s, from %d: the copy differs, %v, %v", site, from, err, err2)
			}
		}
	}
}

// raced is a store in which another caller is quicker: it adds two items to a filter as soon as that is there.
type raced struct {
	engine.Store
	fresh []bool
}

func (s raced) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	set, err := s.Store.Create(ctx, spec, b)
	if hashing, ok := set.(engine.Hashing); ok && spec.Name == "b" {
		_, err = set.Add(ctx, []bloom.Hash{hashing.Hash([]byte("dumped")), hashing.Hash([]byte("early"))}, s.fresh)
	}
	return set, err
}

// Nobody finds the filter of a dump empty, and what others add to it as soon as it is there stays.
func TestLoadingBesideAnotherCaller(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	fresh := make([]bool, 2)
	r := newRig(t, func(o *option) { o.store = raced{store, fresh} })
	ctx, c := t.Context(), r.client(t, 2)
	if err := c.BFAdd(ctx, "a", "dumped").Err(); err != nil {
		t.Fatal(err)
	}
	for iterator := int64(0); ; {
		d, err := c.BFScanDump(ctx, "a", iterator).Result()
		if err != nil {
			t.Fatal(err)
		}
		if d.Iter == 0 {
			break
		}
		if err := c.BFLoadChunk(ctx, "b", d.Iter, d.Data).Err(); err != nil {
			t.Fatal(err)
		}
		iterator = d.Iter
	}
	if fresh[0] || !fresh[1] {
		t.Errorf("new for the other caller: the item of the dump %v, its own %v", fresh[0], fresh[1])
	}
	if seen, err := c.BFMExists(ctx, "b", "dumped", "early").Result(); err != nil || slices.Contains(seen, false) {
		t.Errorf("afterwards seen are %v, %v", seen, err)
	}
}

// What a dump that is being loaded takes counts, its head as well, until its connection ends.
func TestLoadingIsHeld(t *testing.T) {
	r := newRig(t)
	ctx, c := t.Context(), r.client(t, 2)
	if err := c.BFReserve(ctx, "a", 0.001, 100_000).Err(); err != nil {
		t.Fatal(err)
	}
	info, err := c.BFInfo(ctx, "a").Result()
	if err != nil {
		t.Fatal(err)
	}
	head, err := c.BFScanDump(ctx, "a", 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	r.AwaitNothingHeld() // the answer, which may arrive before it is given up
	loading := r.dial(t)
	for name, times := range map[string]int64{"b": 1, "c": 2} {
		for range times { // begun once more, it is held once
			if _, err := io.WriteString(loading, command("BF.LOADCHUNK", name, "1", head.Data)); err != nil {
				t.Fatal(err)
			}
			if got := readFull(loading, make([]byte, 5)); got != "+OK\r\n" {
				t.Fatal(got)
			}
		}
	}
	const layer = 32 + 64 // that BF.INFO counts beside the bits
	if held, _ := r.API.Held(); held != 2*(info.Size-layer+int64(len(head.Data))) {
		t.Errorf("%d bytes are held for two of %d, with heads of %d", held, info.Size-layer, len(head.Data))
	}
	loading.Close()
	r.AwaitNothingHeld()
}

// What is sent in pieces, or all at once, is answered in the same way.
func TestPieces(t *testing.T) {
	r := newRig(t)
	text := command("UF.FILTER", "uri", "p", "q") + "PING\r\n" + command("BF.ADD", "x", "1") + command("BF.ADD", "x", "1") + "BF.MADD x 1 \"two words\"\r\n\r\n*0\r\n*-1\r\n" + command("QUIT")
	want := "*2\r\n$1\r\np\r\n$1\r\nq\r\n+PONG\r\n:1\r\n:0\r\n*2\r\n:0\r\n:1\r\n+OK\r\n"
	for n := 1; n < len(text); n += 1 + n/3 {
		if err := r.Engine.Drop(t.Context(), "x"); n > 1 && err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Clear(t.Context(), "uri"); err != nil {
			t.Fatal(err)
		}
		c := r.dial(t)
		go func() {
			for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
				if _, err := io.WriteString(c, rest[:min(n, len(rest))]); err != nil {
					return
				}
			}
		}()
		got, err := io.ReadAll(c)
		if err != nil || string(got) != want {
			t.Fatalf("in pieces of %d: got %q, %v", n, got, err)
		}
	}
}

// What cannot be understood ends the connection with an error, and takes no memory.
func TestNotUnderstood(t *testing.T) {
	r := newRig(t)
	for text, want := range map[string]string{
		"*2\r\n*1\r\n$1\r\na\r\n":              "-ERR Protocol error: expected '$', got '*'\r\n",
		"*1\r\n$536870912\r\n":                 "-ERR Protocol error: invalid bulk length\r\n",
		"*1\r\n$-1\r\n":                        "-ERR Protocol error: invalid bulk length\r\n",
		"*1\r\n$99999999999999999999\r\n":      "-ERR Protocol error: invalid bulk length\r\n",
		"*1048577\r\n":                         "-ERR Protocol error: invalid multibulk length\r\n",
		"*x\r\n":                               "-ERR Protocol error: invalid multibulk length\r\n",
		"*1\r\n$3\r\nabcd\r\n":                 "-ERR Protocol error: expected CRLF after an argument\r\n",
		"PING \"a\r\n":                         "-ERR Protocol error: unbalanced quotes in request\r\n",
		strings.Repeat("x", 100_000):           "-ERR Protocol error: too big inline request\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc": "-ERR Protocol error: this port speaks RESP without TLS: connect without it (redis://); HTTP is at " + r.HTTP.URL + "\r\n",
		"*3\r\n$4\r\nECHO\r\n$8000000\r\n" + strings.Repeat("y", 8000000) + "\r\n$8000000\r\n": "-ERR Protocol error: too big command: want 8388608 bytes at most (limits.body_bytes)\r\n",
	} {
		if got := r.exchange(t, text); got != want {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
	answer, err := http.Get("http://" + r.addr + "/api/v1/filters")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 400 || !strings.Contains(string(body), "HTTP is at "+r.HTTP.URL) {
		t.Errorf("HTTP at this port: %d %s", answer.StatusCode, body)
	}
	r.AwaitNothingHeld()
}

// A pipeline of 10,000 commands, of which some fail, is answered in order; so is one whose answers
// are not read until all is sent.
func TestPipelines(t *testing.T) {
	r := newRig(t)
	for _, proto := range []int{2, 3} {
		ctx, c := t.Context(), r.client(t, proto)
		p := c.Pipeline()
		var single []*redis.BoolCmd
		for i := range 10_000 {
			switch {
			case i%1000 == 999:
				p.Do(ctx, "BF.ADD", fmt.Sprint("p", proto), "")
			case i%500 == 7:
				p.Do(ctx, "NOPE")
			}
			single = append(single, p.BFAdd(ctx, fmt.Sprint("p", proto), fmt.Sprint("item", i/2)))
		}
		_, err := p.Exec(ctx)
		if err == nil {
			t.Error("no command failed")
		}
		fresh := 0
		for i, s := range single {
			is, err := s.Result()
			if err != nil || is && i%2 == 1 { // each item comes twice
				t.Fatalf("RESP%d: item %d: %v, %v", proto, i, is, err)
			}
			if is {
				fresh++
			}
		}
		if fresh < 4850 { // the rate is 0.01
			t.Errorf("RESP%d: %d of 5000 were new", proto, fresh)
		}
	}
}

// The places of arguments in a command have 32 bits, whatever limits.body_bytes says.
func TestCommandsBeyond4GiBAreRefused(t *testing.T) {
	r := newRig(t, func(o *option) { o.limits.CommandBytes = 1 << 40 })
	if got, want := r.exchange(t, "*2\r\n$4\r\nECHO\r\n$4294967296\r\n"), "-ERR Protocol error: invalid bulk length\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// If a batch of pipelined commands breaks off, some of its items may be remembered. Asked one by one, these
// would be called seen, and nobody would be told that they were new.
func TestPipelineInDoubt(t *testing.T) {
	store, batches := &apitest.MemStore{}, 0
	r := newRig(t, func(o *option) { o.store = store })
	store.BeforeEachBatch(func() {
		store.Fail(nil)
		if batches++; batches == 1 {
			store.Fail(fmt.Errorf("%w: %w", engine.ErrInDoubt, engine.ErrUnavailable))
		}
	})
	text := strings.Repeat(command("BF.ADD", "uri", "a"), 3) + command("BF.ADD", "ip", "a") + command("QUIT")
	unknown := "-ERR outcome_unknown: The store failed in the middle of the batch; some of its items may have been remembered.\r\n"
	if got, want := r.exchange(t, text), strings.Repeat(unknown, 3)+":1\r\n+OK\r\n"; got != want || batches != 2 {
		t.Errorf("%d batches; got\n%s\nwant\n%s", batches, got, want)
	}
}

// A client that does not read its answers is not served beyond what its buffers hold, and then cut
// off; others are served meanwhile.
func TestSlowReader(t *testing.T) {
	r := newRig(t, func(o *option) { o.limits.Timeout = 2 * time.Second })
	c := r.dial(t)
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat(command("ECHO", strings.Repeat("z", 60_000)), 50))
	failed := false
	for range 2000 {
		if _, err := c.Write(text); err != nil { // it was cut off
			failed = true
			break
		}
	}
	if !failed {
		t.Error("6 GB of answers were made for a client that reads none")
	}
	if got := r.exchange(t, inWords("PING")+inWords("QUIT")); got != "+PONG\r\n+OK\r\n" {
		t.Errorf("another client: %q", got)
	}
}

// What has come of a command takes memory, so its client may not stop there. Before a command it may.
func TestStopWithinACommand(t *testing.T) {
	r := newRig(t, func(o *option) { o.limits.Timeout = 5 * time.Second })
	patient, stalled := r.dial(t), r.dial(t)
	say := func(text, want string) {
		t.Helper()
		if _, err := io.WriteString(patient, text); err != nil {
			t.Fatal(err)
		}
		if got := readFull(patient, make([]byte, len(want))); got != want {
			t.Fatalf("%q: got %q", text, got)
		}
	}
	say("PING\r\n*1\r\n", "+PONG\r\n")
	say("$4\r\nPING\r\n", "+PONG\r\n")
	if _, err := io.WriteString(stalled, "*2\r\n$4\r\nECHO\r\n$100000\r\n"+strings.Repeat("x", 50_000)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(stalled); string(got) != "-ERR request_timeout: nothing came for 5s within a command\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	r.AwaitNothingHeld()
	say("PING\r\n", "+PONG\r\n")
}

// What is made of very many items counts beside their command, and is given up when the client is waited for.
func TestManyItemsAreHeld(t *testing.T) {
	store, most := &apitest.MemStore{}, int64(0)
	r := newRig(t, func(o *option) { o.store = store })
	store.BeforeEachBatch(func() { most, _ = r.API.Held() })
	args := append([]string{"BF.MADD", "uri"}, strings.Split(strings.Repeat("x ", 20_000)+"x", " ")[:20_000]...)
	text, c := command(args...), r.dial(t)
	if _, err := io.WriteString(c, text+"PING\r\n"); err != nil {
		t.Fatal(err)
	}
	answer := "*20000\r\n:1\r\n" + strings.Repeat(":0\r\n", 19_999) + "+PONG\r\n"
	if got := readFull(c, make([]byte, len(answer))); got != answer {
		t.Errorf("got %.80q", got)
	}
	if want := int64(len(text) + 20_000*25); most < want {
		t.Errorf("%d bytes were held, want %d and more", most, want)
	}
	r.AwaitNothingHeld()
}

// A part of a dump, for which hardly anything is sent, counts until it is sent; if there is no room for it, it is refused.
func TestDumpsAreHeld(t *testing.T) {
	const part = 16 << 20
	r := newRig(t)
	if err := r.client(t, 2).BFReserve(t.Context(), "a", 0.000001, 10_000_000).Err(); err != nil {
		t.Fatal(err)
	}
	slow := r.dial(t)
	if _, err := io.WriteString(slow, command("BF.SCANDUMP", "a", "1")); err != nil {
		t.Fatal(err)
	}
	var held int64
	r.Eventually("it is held", func() bool { held, _ = r.API.Held(); return held >= part })
	rest := 256<<20 - held - part/2 // of the usual limit
	if !r.API.Bodies().Take(budget.Holder{}, rest, 0) {
		t.Fatal("no room")
	}
	defer r.API.Bodies().Give(budget.Holder{}, rest)
	if got := r.exchange(t, command("BF.SCANDUMP", "a", "1")+command("QUIT")); !strings.HasPrefix(got, "-TRYAGAIN overloaded: ") || !strings.HasSuffix(got, "\r\n+OK\r\n") {
		t.Errorf("got %.200q", got)
	}
}

// A connection keeps no long name, of a client or of a filter that there is none of: nobody counts it.
func TestNoLongNameIsKept(t *testing.T) {
	r := newRig(t)
	in := func() uint64 {
		runtime.GC()
		runtime.GC() // what was in a pool
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const bad = "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
	long, before := strings.Repeat("x", 7<<20), in()
	for range 4 {
		c := r.dial(t)
		for _, test := range [][]string{
			{bad, "HELLO", "2", "SETNAME", long}, {bad, "CLIENT", "SETNAME", long}, {bad, "HELLO", "2", "SETNAME", "a\x1b[2J"},
			{":0\r\n", "BF.EXISTS", long, "1"},
			{"+PONG\r\n", "PING"}, // read once the buffer of the command before was given up
		} {
			if _, err := io.WriteString(c, command(test[1:]...)); err != nil {
				t.Fatal(err)
			}
			if got := readFull(c, make([]byte, len(test[0]))); got != test[0] {
				t.Fatalf("%.20q: got %q", test[1:], got)
			}
		}
	}
	if after := in(); after > before+8<<20 {
		t.Errorf("four connections keep %d MiB", (after-before)>>20)
	}
}

// Tokens have the scopes that they have for HTTP.
func TestTokens(t *testing.T) {
	r := newRig(t, func(o *option) { o.tokens = true })
	for _, test := range []struct{ commands, want string }{
		{"PING", "-NOAUTH Authentication required."},
		{"ECHO x", "-NOAUTH Authentication required."},
		{"SELECT 0", "-NOAUTH Authentication required."},
		{"AUTH secret-read|PING|SELECT 0", "+OK|+PONG|+OK"},
		{"AUTH secret-filter|PING", "+OK|+PONG"},
		{"BF.ADD uri 1", "-NOAUTH Authentication required."},
		{"DBSIZE", "-NOAUTH Authentication required."},
		{"HELLO 3", "-NOAUTH HELLO must be called"},
		{"AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"AUTH other secret-read", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"AUTH secret-read|BF.EXISTS uri 1", "+OK|:0"},
		{"AUTH secret-read|BF.ADD uri 1", "+OK|-NOPERM token read lacks the scope filter"},
		{"AUTH default secret-filter|BF.ADD uri 1", "+OK|:1"},
		{"AUTH filter secret-filter|BF.ADD uri 2", "+OK|:1"},
		{"AUTH secret-filter|BF.ADD new 1", "+OK|-NOPERM token filter lacks the scope admin"},
		{"AUTH secret-filter|DEL uri", "+OK|-NOPERM token filter lacks the scope admin"},
		{"MULTI|AUTH secret-filter|BF.EXISTS uri 1", "-NOAUTH Authentication required.|+OK|:1"},
		{"AUTH secret-filter|MULTI|RESET|AUTH secret-filter|BF.EXISTS uri 1", "+OK|+OK|+RESET|+OK|:1"},
		{"AUTH secret-filter|RESET|BF.ADD uri 1", "+OK|+RESET|-NOAUTH Authentication required."},
		{"AUTH secret-admin|BF.ADD new 1|DEL new", "+OK|:1|:1"},
		{"AUTH secret-admin|FLUSHALL", "+OK|+OK"},
		{"HELLO 3 AUTH filter secret-filter SETNAME me", "%7"},
	} {
		text := ""
		for line := range strings.SplitSeq(test.commands, "|") {
			text += inWords(line)
		}
		got := strings.ReplaceAll(strings.TrimSuffix(r.exchange(t, text+inWords("QUIT")), "+OK\r\n"), "\r\n", "|")
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.commands, got, test.want)
		}
	}
	// Before it has logged in, a client cannot make the server hold much.
	if got := r.exchange(t, "*2\r\n$4\r\nAUTH\r\n$20000\r\n"); got != "-ERR Protocol error: invalid bulk length\r\n" {
		t.Errorf("a long password: %q", got)
	}
	if got := r.exchange(t, "*1000\r\n"); got != "-ERR Protocol error: invalid multibulk length\r\n" {
		t.Errorf("many arguments: %q", got)
	}
}

// Callers of RESP, of JSON and of text add the same items to one filter at the same moment: each
// is new for one of them.
func TestExactlyOnceBetweenProtocols(t *testing.T) {
	r := newRig(t)
	const items, batch = 20_000, 100
	var mu sync.Mutex
	told := map[string]int{}
	note := func(all []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range all {
			told[s]++
		}
	}
	var callers sync.WaitGroup
	for kind := range 6 {
		callers.Go(func() {
			c := r.client(t, 2+kind%2)
			order := rand.Perm(items / batch)
			for _, b := range order {
				var list []string
				for i := range batch {
					list = append(list, fmt.Sprint("item-", b*batch+i))
				}
				switch kind {
				case 0, 1: // UF.FILTER
					args := []any{"UF.FILTER", "uri"}
					for _, s := range list {
						args = append(args, s)
					}
					fresh, err := c.Do(context.Background(), args...).StringSlice()
					if err != nil {
						t.Error(err)
						return
					}
					note(fresh)
				case 2, 3: // pipelined BF.ADD
					p := c.Pipeline()
					var adds []*redis.BoolCmd
					for _, s := range list {
						adds = append(adds, p.BFAdd(context.Background(), "uri", s))
					}
					if _, err := p.Exec(context.Background()); err != nil {
						t.Error(err)
						return
					}
					var fresh []string
					for i, a := range adds {
						if a.Val() {
							fresh = append(fresh, list[i])
						}
					}
					note(fresh)
				case 4:
					a := r.Do("POST", "/api/v1/filter?filter=uri", strings.Join(list, "\n")+"\n", "Content-Type", "text/plain")
					note(strings.Fields(a.Body))
				default:
					a := r.Post("/api/v1/filter", `{"filter":"uri","items":["`+strings.Join(list, `","`)+`"]}`)
					inner, _, _ := strings.Cut(strings.TrimPrefix(a.Body, `{"uri_list":[`), "]")
					for s := range strings.SplitSeq(inner, ",") {
						if s != "" {
							note([]string{strings.Trim(s, `"`)})
						}
					}
				}
			}
		})
	}
	callers.Wait()
	twice := 0
	for s, n := range told {
		if n > 1 {
			t.Errorf("%s was new %d times", s, n)
			twice++
		}
	}
	if lost := items - len(told); lost > 60 { // false positives of a filter of 4 million at 0.0001
		t.Errorf("%d items were new for nobody", lost)
	}
}

// Every command is answered to redis-cli, in both versions, which shows that a client of another
// maker understands the answers.
func TestRedisCLI(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed: apt-get install redis-tools")
	}
	r := newRig(t)
	host, port, _ := net.SplitHostPort(r.addr)
	for _, proto := range []string{"-2", "-3"} {
		cmd := exec.Command(cli, proto, "-h", host, "-p", port)
		var script strings.Builder
		for _, a := range answers {
			fmt.Fprintln(&script, a.command)
		}
		cmd.Stdin = strings.NewReader(script.String())
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("Protocol error")) || bytes.Contains(out, []byte("closed")) || bytes.Count(out, []byte("\n")) < len(answers) {
			t.Errorf("%s: %v\n%s", proto, err, out)
		}
		if !bytes.Contains(out, []byte("Number of filters")) || !bytes.Contains(out, []byte("ERR non scaling filter is full")) {
			t.Errorf("%s:\n%s", proto, out)
		}
	}
}

// tired is a listener that at first has no file left for a connection.
type tired struct {
	net.Listener
	errs []error
}

func (l *tired) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// A process without a file for one more connection serves those that it has, and later further ones.
func TestNoFileForAConnection(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() {
		served <- r.front.Serve(&tired{l, []error{syscall.EMFILE, syscall.ENFILE, syscall.EMFILE}}, false)
		_ = l.Close()
	}()
	if got := r.exchange(t, inWords("PING")+inWords("QUIT")); got != "+PONG\r\n+OK\r\n" {
		t.Errorf("got %q", got)
	}
	_ = l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := r.front.Serve(&tired{l, []error{syscall.EINVAL}}, false); err == nil {
		t.Error("a socket that cannot be served: no error")
	}
}

// Drain answers what was received, and ends idle connections.
func TestDrain(t *testing.T) {
	r := newRig(t)
	idle, busy := r.dial(t), r.dial(t)
	for _, c := range []net.Conn{idle, busy} {
		if _, err := io.WriteString(c, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
		if got := make([]byte, 7); readFull(c, got) != "+PONG\r\n" {
			t.Fatalf("got %q", got)
		}
	}
	if cut := r.front.Drain(time.Minute); cut != 0 {
		t.Errorf("%d were cut off", cut)
	}
	for _, c := range []net.Conn{idle, busy} {
		if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
			t.Errorf("after the end: %q, %v", rest, err)
		}
	}
}

// halved is a connection that notes whether its sending half was ended before it was closed.
type halved struct {
	*net.TCPConn
	half  atomic.Bool
	early *atomic.Int32
}

func (h *halved) CloseWrite() error {
	h.half.Store(true)
	return h.TCPConn.CloseWrite()
}

func (h *halved) Close() error {
	if !h.half.Load() {
		h.early.Add(1)
	}
	return h.TCPConn.Close()
}

type halving struct {
	net.Listener
	early atomic.Int32
}

func (l *halving) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &halved{TCPConn: c.(*net.TCPConn), early: &l.early}, nil
}

// A client that is still sending when the server leaves gets an answer for each item that is remembered: a
// connection that was closed at once would be reset, and the answers on their way be thrown away.
func TestDrainOfABusyClient(t *testing.T) {
	r := newRig(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = inner.Addr().String()
	l, served := &halving{Listener: inner}, make(chan error, 1)
	go func() { served <- r.front.Serve(l, false) }()
	c := r.dial(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := 0; ; i++ {
			if _, err := io.WriteString(c, command("SADD", "busy", fmt.Sprint(i))); err != nil {
				return
			}
		}
	}()
	var n uint64
	for lines := bufio.NewScanner(c); lines.Scan(); n++ {
		if n == 1000 {
			go r.front.Drain(time.Minute)
		}
	}
	_ = c.Close()
	<-sent
	_ = inner.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	r.front.Drain(time.Minute)
	f, err := r.Engine.Lookup("busy")
	if err != nil {
		t.Fatal(err)
	}
	if has := f.Stats().Items; has != n {
		t.Errorf("%d items were answered, %d are remembered", n, has)
	}
	if l.early.Load() > 0 {
		t.Error("the connection was closed while its client was sending")
	}
}

func readFull(c io.Reader, b []byte) string {
	n, _ := io.ReadFull(c, b)
	return string(b[:n])
}

// With a certificate the port speaks TLS, and tells those who do not.
func TestTLS(t *testing.T) {
	authority := certtest.New(t, "authority")
	pair := authority.Issue(t, "daemon", time.Hour, "127.0.0.1")
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *option) {
		o.cert = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	c := redistest.Client(t, redis.Options{Addr: r.addr, Protocol: 3, TLSConfig: &tls.Config{RootCAs: authority.Roots(), MinVersion: tls.VersionTLS12}})
	if is, err := c.BFAdd(t.Context(), "uri", "a").Result(); err != nil || !is {
		t.Errorf("over TLS: %v, %v", is, err)
	}
	if got := r.exchange(t, inWords("PING")); got != "-ERR Protocol error: this port speaks TLS: connect with TLS (redis-cli --tls, rediss://)\r\n" {
		t.Errorf("without TLS: %q", got)
	}
}
