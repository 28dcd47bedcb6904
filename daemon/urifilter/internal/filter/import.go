package filter

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// importCommand brings along what another filter has seen.
type importCommand struct {
	batchCommand
	resp  connection.RESP
	state string // file; "": none
}

// NewImport makes the command import.
func NewImport() *cobra.Command {
	c := &importCommand{batchCommand: batchCommand{remembers: true}}
	c.judge = c.filterBatch
	cmd := &cobra.Command{
		Use:   "import [flags] FILE|-|redis://HOST/DB/KEY",
		Short: "Bring along what was seen elsewhere",
		Long: `Have the daemon remember what another filter has seen. Nothing is printed but a
summary, and progress on a terminal.

From a file it takes what "urifilter filter" does: an item a line, or with --input-format
ndjson a JSON value a line, also compressed with gzip or zstd; with --as scrapy the file
requests.seen of a Scrapy JOBDIR; and what "urifilter export" has written, by which a filter
comes from another daemon: it is made if it is not there, and must hash with the same secret
if it is. That needs a token of the scope admin.

From a key of Redis it takes the members of a set, as scrapy-redis keeps them (the filter is
to be asked for the same strings: fingerprints, if the set has those); or a whole filter of
RedisBloom, which becomes one of the kind scaling and of the same layout. That one goes through
the daemon's port for Redis clients (--resp, setting resp.listen), appears under its name
when all of it has come, and must not exist before. Let no one add to it meanwhile.

Importing twice does no harm. With --state the run writes down how far it is, and after a
failure, or Ctrl-C, the same command goes on from there. The file is removed in the end.`,
		Example: `  urifilter import --filter uri --state import.json seen.txt.gz

  # the set of scrapy-redis
  urifilter import --filter shop:dupefilter redis://:password@127.0.0.1:6379/0/shop:dupefilter

  # a filter of RedisBloom
  urifilter import --filter crawl --resp redis://127.0.0.1:6380 redis://127.0.0.1/0/crawl

  # an exact filter of another daemon
  urifilter import --filter jobs jobs.digests.zst

  # what a crawl of Scrapy has seen
  urifilter import --filter uri --as scrapy crawls/shop/requests.seen`,
	}
	c.register(cmd)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) }
	c.resp.Register(cmd)
	cmd.Flags().StringVar(&c.state, "state", "", "`file` for how far the run is, so that the same command goes on from there")
	return cmd
}

func (c *importCommand) run(cmd *cobra.Command, name string) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	if !cmd.Flags().Changed("filter") && connection.Filter(cmd, "") == "" {
		return command.UsageError{Err: errors.New("--filter: want the name of the filter that is to have the items")}
	}
	switch {
	case strings.HasPrefix(name, "redis://"), strings.HasPrefix(name, "rediss://"):
		return c.fromRedis(cmd, name)
	case name == "-" && c.state != "":
		return command.UsageError{Err: errors.New("--state: the standard input cannot be read once more; want a file, or a key of Redis")}
	}
	return c.fromFile(cmd, name)
}

// sameAgain is how the rest of an import with a state is done.
const sameAgain = "the same command"

func (c *importCommand) fromFile(cmd *cobra.Command, name string) error {
	daemon, err := c.conn.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	source, size, err := openInput(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer source.Close()
	s := importState{Source: name, Daemon: withoutPasswords(c.conn.Server(cmd)), Filter: c.conn.filter(cmd), As: string(c.as), Format: c.input.value}
	if info, err := os.Stat(name); err == nil {
		s.Size, s.Modified = info.Size(), info.ModTime().UTC().Round(0)
	}
	if err := s.resume(c.state); err != nil {
		return err
	}
	text := c.unpacked(source)
	lines, err := c.lines(text)
	if err != nil {
		return err
	}
	if c.state != "" {
		text.again = sameAgain
	}
	if s.Lines > 0 {
		lines = &withoutLines{r: lines, left: s.Lines}
	}
	in := newInput(lines)
	in.line = s.Lines
	return c.finish(c.pass(cmd, daemon, io.Discard, size, text, in, func(line int64) error {
		s.Lines = line
		return s.save(c.state)
	}))
}

// lines returns the items of a text, or the digests of an export.
func (c *importCommand) lines(text *unpacked) (io.Reader, error) {
	if c.as != "" || c.input.ndjson() {
		return c.as.lines(text), nil
	}
	in := bufio.NewReaderSize(text, chunkBytes)
	if mark, _ := in.Peek(len(digestsMark)); string(mark) != digestsMark { // an error is that of the next Read, too
		return in, nil
	}
	head, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	text.odd, text.taken = nil, true
	c.judge = func(daemon *client.Client, filter string) func(context.Context, batch) (verdicts, error) {
		return func(ctx context.Context, b batch) (v verdicts, err error) {
			done, err := daemon.PutDigests(ctx, filter, append(slices.Clip(head), b.data...))
			return verdicts{read: int64(done.Total), fresh: int64(done.New)}, err
		}
	}
	return &itemLines{begin: func() (source, error) { return digestsSource(head, in), nil }}, nil
}

// finish removes the state of an import that is done.
func (c *importCommand) finish(err error) error {
	if err != nil || c.state == "" {
		return err
	}
	if err := os.Remove(c.state); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil // there was nothing to import
}

// importState is how far an import is. What it says is done, the daemon has answered.
type importState struct {
	Source   string    `json:"source"`
	Daemon   string    `json:"daemon,omitempty"` // its URL; "": written before it was noted
	Filter   string    `json:"filter"`
	As       string    `json:"as,omitempty"`
	Format   string    `json:"format,omitempty"`
	Size     int64     `json:"size,omitempty"` // of the file
	Modified time.Time `json:"modified,omitzero"`
	Server   string    `json:"server,omitempty"` // the run id of Redis, whose cursors others do not understand

	Lines  int64  `json:"lines"`            // of the file that are done
	Cursor uint64 `json:"cursor,omitempty"` // of the set
}

// withoutPasswords cuts users and passwords out of the URLs of daemons, with commas between them.
func withoutPasswords(servers string) string {
	all := strings.Split(servers, ",")
	for i, one := range all {
		scheme, rest, found := strings.Cut(strings.TrimSpace(one), "://")
		if !found {
			scheme, rest = "http", scheme
		}
		host, path, _ := strings.Cut(rest, "/")
		all[i] = scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + strings.TrimRight(path, "/")
	}
	return strings.Join(all, ",")
}

// resume takes from the file how far an earlier run was. "": there is no file.
func (s *importState) resume(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	var before importState
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("--state %s: no state of an import: %w", file, err)
	}
	same := before
	same.Lines, same.Cursor = s.Lines, s.Cursor
	if before.Daemon == "" {
		same.Daemon = s.Daemon
	}
	if same != *s {
		return fmt.Errorf("--state %s: is of another import, of %s into %s of %s, or its source has changed since%sremove the file to import from the beginning",
			file, before.Source, before.Filter, cmp.Or(before.Daemon, "a daemon"), command.HintMark)
	}
	s.Lines, s.Cursor = before.Lines, before.Cursor
	return nil
}

func (s *importState) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	err = disk.FS{}.WriteFile("import state", file, func(f *disk.File) error { return f.WriteAt("import state", append(text, '\n'), 0) })
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// withoutLines is a text without its first lines.
type withoutLines struct {
	r    io.Reader
	left int64
}

// Read implements [io.Reader].
func (w *withoutLines) Read(p []byte) (int, error) {
	for {
		n, err := w.r.Read(p)
		from := 0
		for ; from < n && w.left > 0; from++ {
			if p[from] == '\n' {
				w.left--
			}
		}
		if n = copy(p, p[from:n]); n > 0 || err != nil {
			return n, err
		}
	}
}

// fromRedis imports what a key of Redis holds.
func (c *importCommand) fromRedis(cmd *cobra.Command, name string) error {
	from, key, err := redisKey(name)
	if err != nil {
		return command.UsageError{Err: fmt.Errorf("%w%swant redis://HOST:PORT/DB/KEY, with user:password@ before the host if need be", err, command.HintMark)}
	}
	redis.SetLogger(noLog{}) // the errors are returned as well
	from.DisableIdentity, from.DialerRetries = true, 1
	db := redis.NewClient(from)
	defer db.Close()
	at := fmt.Sprintf("redis %s, key %s", from.Addr, key)
	kind, err := db.Type(cmd.Context(), key).Result()
	if err != nil {
		return fmt.Errorf("%s: %w%sthe URL names the server that has the items: redis://user:password@HOST:PORT/DB/KEY, or rediss:// with TLS", at, err, command.HintMark)
	}
	switch kind {
	case "MBbloom--":
		err = c.dump(cmd, db, key)
	case "set":
		err = c.set(cmd, db, at, key)
	case "none":
		err = errors.New("is not there" + command.HintMark + "`redis-cli -n DB --scan` lists the keys")
	case "string":
		err = errors.New("holds a string, such as the bits of scrapy-redis-bloomfilter, and the items cannot be found in bits" + command.HintMark +
			"docs/resp.md says what can be done")
	default:
		err = fmt.Errorf("is a %s; want a set, or a filter of RedisBloom", kind)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// noLog is a log that nobody reads.
type noLog struct{}

// Printf is what redis.SetLogger asks for.
func (noLog) Printf(context.Context, string, ...any) {}

// redisKey splits a URL into the server and the key.
func redisKey(text string) (*redis.Options, string, error) {
	u, err := url.Parse(text)
	if err != nil {
		if fault, ok := errors.AsType[*url.Error](err); ok { // which would show the password
			err = fault.Err
		}
		return nil, "", err
	}
	db, key, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if key == "" {
		return nil, "", errors.New("the URL names no key")
	}
	u.Path, u.RawPath = "/"+db, ""
	o, err := redis.ParseURL(u.String())
	return o, key, err
}

// set imports the members of a set. SSCAN gives those that are in it all the while, in pieces; its
// cursor is a position in the table of the server, which one that was restarted does not know.
func (c *importCommand) set(cmd *cobra.Command, db *redis.Client, at, key string) error {
	ctx := cmd.Context()
	daemon, err := c.conn.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	m := &members{ctx: ctx, db: db, key: key}
	s := importState{Source: at, Daemon: withoutPasswords(c.conn.Server(cmd)), Filter: c.conn.filter(cmd)}
	m.server, err = m.runID()
	if c.state != "" {
		if err != nil {
			return err
		}
		s.Server = m.server
		if err := s.resume(c.state); err != nil {
			return err
		}
	}
	c.input.value, m.cursor = inputNDJSON, s.Cursor
	text := &unpacked{taken: true}
	if c.state != "" {
		text.again = sameAgain
	}
	in := newInput(&itemLines{begin: func() (source, error) { return m.next, nil }})
	return c.finish(c.pass(cmd, daemon, io.Discard, 0, text, in, func(line int64) error {
		s.Cursor = m.before(line)
		return s.save(c.state)
	}))
}

// page is about how many members are asked for at once.
const page = 10_000

// members gives the members of a set as JSON strings.
type members struct {
	ctx    context.Context
	db     *redis.Client
	key    string
	server string // its run id at the beginning; "": the user may not ask for it
	cursor uint64
	page   []string
	given  int64
	ended  bool

	mu    sync.Mutex
	marks []mark // of the pages, in order
}

// mark says that the cursor gives what comes after so many members.
type mark struct {
	given  int64
	cursor uint64
}

func (m *members) next() (string, error) {
	for len(m.page) == 0 {
		if m.ended {
			return "", m.end()
		}
		m.mu.Lock()
		m.marks = append(m.marks, mark{m.given, m.cursor})
		m.mu.Unlock()
		var err error
		if m.page, m.cursor, err = m.db.SScan(m.ctx, m.key, m.cursor, "", page).Result(); err != nil {
			return "", err
		}
		m.ended = m.cursor == 0
	}
	item := m.page[0]
	m.page = m.page[1:]
	if item == "" {
		return "", nil // a filter has no empty items
	}
	if !utf8.ValidString(item) {
		return "", fmt.Errorf("member %.80q is no text%sSADD to the daemon's port for Redis clients takes any bytes", item, command.HintMark)
	}
	m.given++
	text, err := json.Marshal(item)
	return string(text), err
}

// end returns io.EOF, unless the server was restarted while its set was read: it then gave members to a cursor
// that it did not know.
func (m *members) end() error {
	if m.server == "" {
		return io.EOF
	}
	switch id, err := m.runID(); {
	case err != nil:
		return err
	case id != m.server:
		return &notText{"the server was restarted meanwhile, and may not have given all members", "import from the beginning"}
	}
	return io.EOF
}

// runID returns the id of the server's process.
func (m *members) runID() (string, error) {
	text, err := m.db.Info(m.ctx, "server").Result()
	_, id, _ := strings.Cut(text, "run_id:")
	id, _, _ = strings.Cut(id, "\r")
	return id, err
}

// before returns the cursor of the last page that begins within the first members, and forgets those before it.
func (m *members) before(given int64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.marks) > 1 && m.marks[1].given <= given {
		m.marks = m.marks[1:]
	}
	return m.marks[0].cursor
}

// partTime is for a part of a dump, of up to 16 MiB, on a slow line. Other calls have the five seconds of
// the client.
const partTime = 2 * time.Minute

// dump imports a filter of RedisBloom as it is, by a dump.
func (c *importCommand) dump(cmd *cobra.Command, from *redis.Client, key string) error {
	ctx, errOut := cmd.Context(), cmd.ErrOrStderr()
	target, err := c.conn.Target(cmd)
	if err != nil {
		return err
	}
	o, err := c.resp.Options(cmd, target.Token)
	if err != nil {
		return err
	}
	daemon := redis.NewClient(o)
	defer daemon.Close()
	from, to := from.WithTimeout(partTime), daemon.WithTimeout(partTime).Conn() // the parts of a dump come by one connection
	defer to.Close()
	name := c.conn.filter(cmd)
	size, err := from.BFInfoSize(ctx, key).Result()
	if err != nil {
		return err
	}
	start, done := time.Now(), int64(0)
	progress := terminal.NewProgress(errOut, !c.quiet)
	for iterator := int64(0); ; {
		part, err := from.BFScanDump(ctx, key, iterator).Result()
		if err != nil {
			return err
		}
		if iterator = part.Iter; iterator == 0 {
			break
		}
		if err := to.BFLoadChunk(ctx, name, iterator, part.Data).Err(); err != nil {
			return c.loadError(name, o.Addr, err)
		}
		done += int64(len(part.Data))
		progress.Show("%s of %s", human.Bytes(done), human.Bytes(size.Size))
	}
	progress.Clear()
	info, err := to.BFInfo(ctx, name).Result()
	if err != nil {
		return fmt.Errorf("filter %s: did not appear, though all parts of the dump were taken: %w", name, err)
	}
	if c.summary.value == summaryText {
		fmt.Fprintf(errOut, "filter %s: %s items in %s, kind scaling, in %.1fs\n", name, human.Count(info.ItemsInserted), human.Bytes(info.Size), time.Since(start).Seconds())
	}
	return nil
}

// loadError says what an operator can do about an answer to a part of a dump.
func (c *importCommand) loadError(name, addr string, err error) error {
	switch {
	case !errors.As(err, new(redis.Error)):
		return fmt.Errorf("the daemon's port for Redis clients at %s: %w%sset resp.listen of the daemon, and name it with --resp", addr, err, command.HintMark)
	case strings.Contains(err.Error(), "item exists"):
		return fmt.Errorf("filter %s: exists already, and a dump cannot be added to it%schoose another name with --filter, or drop it: urifilter filters drop %s", name, command.HintMark, name)
	}
	return fmt.Errorf("filter %s: %w%snothing of it is there; the same command begins from the start", name, err, command.HintMark)
}
