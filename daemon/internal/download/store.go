package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"time"
)

var (
	// ErrNoJob is returned for a job that does not exist, or was dropped.
	ErrNoJob = errors.New("no such job")
	// ErrExists is returned if a job of that name exists.
	ErrExists = errors.New("there is a job of this name")
	// ErrLeaseLost is returned when a worker settles or gives back a task that it does not
	// hold, or no longer holds: nothing was stored.
	ErrLeaseLost = errors.New("the lease of the task has ended")
	// ErrNoData is returned when the body of a task without data is wanted.
	ErrNoData = errors.New("the task has no data")
	// ErrUnavailable is wrapped by the error of a store whose server does not answer, or accepts
	// no writes, at present. The operation may have been carried out nonetheless.
	ErrUnavailable = errors.New("the store is not available")
)

// Store keeps jobs, tasks, data and logs. When a method has returned without an error, its effect
// survives a crash of the program and of the store. All methods may be called concurrently, from
// several processes where the store allows it. The task is the single source of truth: whatever
// crashes between two steps, a task has at most one readable result, and none if it failed. Times
// are kept to the millisecond.
type Store interface {
	// Now is the store's clock. All times of the contract are by this clock.
	Now(ctx context.Context) (time.Time, error)
	// Ready asks the store for a little of everything. It returns an error if that cannot be read, or
	// if a call before has met damage.
	Ready(ctx context.Context) error
	Close() error

	Jobs
	Tasks
	Records
	Roles
}

// Jobs are the methods for jobs.
type Jobs interface {
	// AddJob stores a job, and returns it with its id, version and times: ErrExists.
	AddJob(ctx context.Context, j Job) (Job, error)
	// ChangeJob gives the job named j.Name the priority, filter, setting and code of j. That is a
	// new version unless setting and code are unchanged: ErrNoJob. Older versions never change.
	ChangeJob(ctx context.Context, j Job) (Job, error)
	// SwitchJob turns a job on or off: ErrNoJob.
	SwitchJob(ctx context.Context, name string, on bool) error
	// DropJob removes a job with its tasks, data and logs: ErrNoJob. As soon as it returns, the name is
	// free and nothing of the job can be seen or settled. If it is interrupted, Sweep continues it.
	DropJob(ctx context.Context, name string) error
	Job(ctx context.Context, name string) (Job, error) // ErrNoJob
	// JobVersion is the present job with the setting, code and time of a version: ErrNoJob, also
	// for versions that never existed.
	JobVersion(ctx context.Context, id int64, version int) (Job, error)
	ListJobs(ctx context.Context) ([]Job, error) // by name
	// MarkReported records that the end of all tasks of a job was reported, and how many they were:
	// ErrNoJob. It makes no new version.
	MarkReported(ctx context.Context, job int64, tasks int) error
	// Counts returns how many tasks of a job are in each state, with all States as keys: ErrNoJob.
	Counts(ctx context.Context, job int64) (map[State]int, error)
	// KeepRefusal records why a job was refused, with Added set to now and Text cut to MaxReason bytes.
	// It forgets all but the newest MaxRefusals. Refusals lists the newest first, at most limit.
	KeepRefusal(ctx context.Context, r Refusal) error
	Refusals(ctx context.Context, limit int) ([]Refusal, error)
}

// MaxRefusals is how many refusals are kept.
const MaxRefusals = 200

// Refusal describes a job that was refused.
type Refusal struct {
	Name  string // of the job or its file
	Text  string // all that is wrong, one fault per line
	Added time.Time
}

// Tasks are the methods for tasks.
type Tasks interface {
	// AddTasks makes tasks of URIs and returns how many are new; existing tasks stay as they are,
	// whatever their state: ErrNoJob. It stores them in parts, so that others can call in between;
	// after an error some may be stored, and the same call adds the rest.
	AddTasks(ctx context.Context, job int64, tasks []NewTask) (int, error)
	// HandOut makes up to n waiting tasks of the job ready, and returns them: ErrNoJob; a job that is off
	// gives none. It is fair between hosts (see [QueueOf]), whatever the order in which tasks were added: each
	// task is of a host that has the fewest tasks ready or running, and of its host the one that waits
	// longest. Where there are more than some dozens of hosts, it looks at a part of them, each time at the next one.
	// The tasks of a host have ranks that rise from rank on, and neighbours may share one: workers, which get the
	// lowest ranks first, mix the hosts. After ttl tasks can no longer be leased, and the next Sweep makes them
	// waiting again.
	HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]Task, error)
	// Lease gives a worker ready tasks, by rank, and counts an attempt of each while it runs. It gives no tasks
	// of jobs that are off, or that need what the worker does not have. The tasks of one call come in order.
	Lease(ctx context.Context, want Want) ([]Lease, error)
	// Renew extends leases of owner to ttl from now, and returns the ids of tasks that it has
	// lost. A lease that has expired is lost, even if nobody has taken the task since.
	Renew(ctx context.Context, owner string, leases []Lease, ttl time.Duration) (lost []string, err error)
	// GiveBack makes a leased task waiting again, from notBefore on (zero: at once). The attempt is
	// neither counted nor logged: ErrLeaseLost.
	GiveBack(ctx context.Context, l Lease, notBefore time.Time) error
	// Finish stores a result with its log, and the task is done: ErrLeaseLost. If the body cannot be
	// read, that error is returned, and nothing was stored.
	Finish(ctx context.Context, l Lease, r Result, a Attempt) error
	// Fail logs an attempt. The task then waits until retry, or fails if retry is zero: ErrLeaseLost.
	Fail(ctx context.Context, l Lease, a Attempt, retry time.Time) error
	// Retry makes those of the tasks waiting that have failed, as if they had never been tried: their attempts
	// and abandoned leases are counted from 0 again; logs stay. Others stay as they are. It returns how many these are, and the end
	// of the job's tasks counts as not reported: ErrNoJob. After an error some may be waiting.
	Retry(ctx context.Context, job int64, ids []string) (int, error)
	// Sweep makes tasks waiting again that were ready or running for too long. Those that were
	// running are abandoned: that is counted and logged separately, with the name of the worker,
	// and is no attempt. They wait for PauseAbandoned, or fail at MaxAbandoned. Sweep also removes
	// logs older than keepLogs (0: keeps all) and leftovers of interrupted calls.
	Sweep(ctx context.Context, keepLogs time.Duration) (Swept, error)
}

// Want is what a worker asks for.
type Want struct {
	Owner  string
	Max    int           // tasks
	For    time.Duration // how long the leases last
	Shards []int         // of the hosts that the worker holds: it gets no others
	Lanes  []Lane        // of the jobs' newest versions; an empty list gives nothing
	Has    []string      // the needs (Job.Needs) that the worker meets: it gets no jobs with other needs; nil for all
	Enough []int         // queues of which it has enough tasks: it gets none of them
}

// Swept counts the tasks that a sweep has changed.
type Swept struct {
	Unclaimed int // were ready, and no worker leased them
	Abandoned int // were running, and the worker did not renew the lease
	Failed    int // of the abandoned: those abandoned for the MaxAbandoned-th time
	Logs      int // entries that were removed
}

// Records are the methods that read what was downloaded.
type Records interface {
	// ListTasks, ListLogs and ListData call each with the records that the query finds, by id or by
	// time. They stop when each returns an error, and return it. A long list is read in parts, and
	// is no snapshot: records that exist all the while come exactly once. each may call the store.
	ListTasks(ctx context.Context, q Query, each func(Task) error) error
	ListLogs(ctx context.Context, q Query, each func(Log) error) error
	ListData(ctx context.Context, q Query, each func(Data) error) error
	// Body opens the body of a task's result, empty if it had none: ErrNoData. The reader can be
	// read to the end even if the job is dropped; it may also return an error then. It ends with a
	// *DamagedError if the body is not what was stored.
	Body(ctx context.Context, task string) (io.ReadCloser, error)
}

// Query says which records of a job are wanted.
type Query struct {
	Job   int64
	State State  // of ListTasks; "" for any
	Task  string // only of this one; "" for any
	// Since is for ListLogs: only those that were added then or later; zero for all.
	Since time.Time
	// Newest is for ListLogs: the last Limit of the job, the newest first; of all other members only Job counts.
	Newest bool
	Limit  int // 0 for no limit
}

// Prefixes of the names that workers hold. Each live worker holds WorkerPrefix with its name, ShardPrefix with the
// number of each of its shards, a HasName for each need that it meets, and one for the NeedLane of each lane. To ask
// for a shard whose holder cannot do some of its tasks, it holds WantedPrefix with the number of that shard.
//
// A pause that a host has asked for is held until its end as PausePrefix, that time on the store's clock in milliseconds
// of Unix time, a slash, and the host. It holds for whoever gets the shard of the host, and after a restart.
const (
	DispatcherRole = "dispatcher"
	WorkerPrefix   = "worker/"
	ShardPrefix    = "shard/"
	WantedPrefix   = "wanted/"
	PausePrefix    = "pause/"
)

// Roles are leases of names, such as the name of the one dispatcher, or of shards.
type Roles interface {
	// Hold makes owner the holder of those names that are free, that have expired, or that it holds
	// already, for ttl from now, and returns them.
	Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error)
	// LetGo frees those of the names that owner holds.
	LetGo(ctx context.Context, owner string, names []string) error
	// Holders returns the names with a prefix that are held now, and their holders.
	Holders(ctx context.Context, prefix string) (map[string]string, error)
}

// InPages is for stores: it calls each with the items that read returns, a page of at most that
// many at a time, until read reports that there are no more, or limit is reached (0: none). Pages
// may be shorter than asked for.
func InPages[T any](limit, page int, read func(most int) (some []T, more bool, err error), each func(T) error) error {
	left := limit
	if limit <= 0 {
		left = math.MaxInt
	}
	for more := true; more && left > 0; {
		var some []T
		var err error
		if some, more, err = read(min(page, left)); err != nil {
			return err
		}
		for _, one := range some {
			if err := each(one); err != nil {
				return err
			}
		}
		left -= len(some)
	}
	return nil
}

// InParts is for stores: it calls do with parts of at most that many items, with an empty one if there are
// none, and adds up what do returns, up to the first error.
func InParts[T any](items []T, limit int, do func(some []T) (int, error)) (int, error) {
	sum := 0
	for {
		some := items[:min(limit, len(items))]
		items = items[len(some):]
		n, err := do(some)
		if err != nil {
			return sum, err
		}
		if sum += n; len(items) == 0 {
			return sum, nil
		}
	}
}

// UntilDone is for stores: it returns r, but reads fail once ctx has ended.
func UntilDone(ctx context.Context, r io.Reader) io.Reader { return &untilDone{ctx, r} }

type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// DamagedError is returned for something stored that is not what was stored.
type DamagedError struct {
	What  string // body of task X, ...
	Fault string
}

func (e *DamagedError) Error() string {
	return e.What + ": " + e.Fault + "\nhint: `uridownloader verify` finds all that is damaged; put it back from a copy, or download it again"
}

// Checked reads a body that was stored with a size and a SHA-256 in hexadecimal digits, "" if it is not
// known. A body that is another one ends with a *DamagedError in place of io.EOF.
func Checked(task string, size int64, sum string, body io.ReadCloser) io.ReadCloser {
	return &checked{ReadCloser: body, what: "body of task " + task, size: size, want: sum, sum: sha256.New()}
}

type checked struct {
	io.ReadCloser
	what string
	size int64
	want string
	read int64
	sum  hash.Hash
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	c.read += int64(n)
	switch {
	case c.read > c.size, err == io.EOF && c.read < c.size:
		return n, &DamagedError{c.what, fmt.Sprintf("it has not the %d bytes that were stored", c.size)}
	case err == io.EOF && c.want != "":
		if got := hex.EncodeToString(c.sum.Sum(nil)); got != c.want {
			return n, &DamagedError{c.what, fmt.Sprintf("its SHA-256 is %s, and that of what was stored is %s", got, c.want)}
		}
	}
	return n, err
}
