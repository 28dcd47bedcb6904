// Package download defines jobs, tasks, leases, data and logs of the downloader, and the contract of
// a store of them. Stores are in the folders below it.
package download

import (
	"context"
	"errors"
	"io"
	"time"
)

var (
	// ErrNoJob is returned for a job that does not exist, or was dropped.
	ErrNoJob = errors.New("no such job")
	// ErrExists is returned for a job whose name is taken.
	ErrExists = errors.New("there is a job of this name")
	// ErrLeaseLost is returned when a worker settles or gives back a task whose lease it does not
	// hold (any more): nothing was stored.
	ErrLeaseLost = errors.New("the lease of the task has ended")
	// ErrNoData is returned for the body of a task that has none.
	ErrNoData = errors.New("the task has no data")
	// ErrUnavailable is in the error of a store whose server does not answer, or accepts no writes,
	// at present. The call may have been carried out.
	ErrUnavailable = errors.New("the store is not available")
)

// Store keeps jobs, tasks, data and logs. Once a method has returned without an error, its effect
// survives a crash of the program and of the store. All methods are safe for concurrent use, from
// several processes if the store allows it. The task is the single source of truth: whatever crashes
// between two steps, a task has at most one readable result, and none if it failed. Times
// have a resolution of one millisecond.
type Store interface {
	// Now returns the time of the store's clock, to which all times of the contract refer.
	Now(ctx context.Context) (time.Time, error)
	Close() error

	Jobs
	Tasks
	Records
	Roles
}

// Jobs are the methods for jobs.
type Jobs interface {
	// AddJob keeps a job, and returns it with its id, version and times: ErrExists.
	AddJob(ctx context.Context, j Job) (Job, error)
	// ChangeJob gives the job of j.Name the priority, filter, setting and code of j, as a further
	// version unless nothing of setting and code differs: ErrNoJob. Versions that were never change.
	ChangeJob(ctx context.Context, j Job) (Job, error)
	// SwitchJob turns a job on or off: ErrNoJob.
	SwitchJob(ctx context.Context, name string, on bool) error
	// DropJob removes a job with its tasks, data and logs: ErrNoJob. The name is free, and nothing
	// of it can be seen or settled, as soon as it returns; if it was interrupted, Sweep goes on.
	DropJob(ctx context.Context, name string) error
	Job(ctx context.Context, name string) (Job, error) // ErrNoJob
	// JobVersion is the job as it is, with the setting, code and time of a version: ErrNoJob, also for
	// versions that never were.
	JobVersion(ctx context.Context, id int64, version int) (Job, error)
	ListJobs(ctx context.Context) ([]Job, error) // by name
	// MarkReported keeps that it was reported that all tasks of a job have ended, of which there were
	// so many: ErrNoJob. It is no further version.
	MarkReported(ctx context.Context, job int64, tasks int) error
	// Counts tells how many tasks of a job are in each state, with all States as keys: ErrNoJob.
	Counts(ctx context.Context, job int64) (map[State]int, error)
	// KeepRefusal keeps why a job was refused, Added now, its Text cut to MaxReason bytes, and forgets all
	// but the newest MaxRefusals; Refusals lists the newest first, at most limit.
	KeepRefusal(ctx context.Context, r Refusal) error
	Refusals(ctx context.Context, limit int) ([]Refusal, error)
}

// MaxRefusals is how many refusals are kept.
const MaxRefusals = 200

// Refusal tells of a job that was not taken.
type Refusal struct {
	Name  string // of the job or its file
	Text  string // all that is wrong, a line each
	Added time.Time
}

// Tasks are the methods for tasks.
type Tasks interface {
	// AddTasks makes tasks of URIs and returns how many are new; those that are there stay as they
	// are, whatever their state: ErrNoJob. It stores them in parts, so that others can call between
	// them; after an error some may be there, and the same call adds the rest.
	AddTasks(ctx context.Context, job int64, tasks []NewTask) (int, error)
	// HandOut makes up to n waiting tasks of the job ready, the longest waiting first, and returns
	// them: ErrNoJob; none of a job that is off. Their rank says which a worker gets first, the lowest.
	// After ttl nobody can lease them, and the next Sweep makes them waiting again.
	HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]Task, error)
	// Lease gives a worker tasks that are ready, by rank, and counts an attempt of each as long as it runs. Tasks of
	// jobs that are off are not leased, nor of those that need what the worker has not. Those of one call come in order.
	Lease(ctx context.Context, want Want) ([]Lease, error)
	// Renew makes leases of owner last for ttl from now, and returns the ids of tasks that it has
	// lost. A lease whose time has run out is lost, even if nobody has the task since.
	Renew(ctx context.Context, owner string, leases []Lease, ttl time.Duration) (lost []string, err error)
	// GiveBack makes a leased task waiting again, from notBefore on (zero: at once), without counting
	// or logging the attempt: ErrLeaseLost.
	GiveBack(ctx context.Context, l Lease, notBefore time.Time) error
	// Finish stores a result with its log, and the task is done: ErrLeaseLost. If the body cannot be
	// read, that error is returned, and nothing was stored.
	Finish(ctx context.Context, l Lease, r Result, a Attempt) error
	// Fail logs an attempt. The task waits until retry, or has failed if retry is zero: ErrLeaseLost.
	Fail(ctx context.Context, l Lease, a Attempt, retry time.Time) error
	// Sweep makes tasks waiting that were ready or running for too long. Those running were abandoned:
	// that is counted and logged by itself, with the name of the worker, and is no attempt; they wait
	// for PauseAbandoned, or have failed with MaxAbandoned. It removes logs older than keepLogs (0: keeps
	// all) and what interrupted calls have left behind.
	Sweep(ctx context.Context, keepLogs time.Duration) (Swept, error)
}

// Want is what a worker asks for.
type Want struct {
	Owner  string
	Max    int           // tasks
	For    time.Duration // how long the leases last
	Shards []int         // of the hosts that the worker has: of others it gets nothing
	Lanes  []Lane        // of the jobs' newest versions; none gives nothing, unless there are IDs
	Has    []string      // what the worker has of what jobs need (Job.Needs): of other jobs it gets nothing; nil for all
	IDs    []string      // only these, in any lane; nil for any
}

// Swept is what a sweep has done, in tasks.
type Swept struct {
	Unclaimed int // were ready, and nobody came
	Abandoned int // were running, and the worker did not renew the lease
	Failed    int // of the abandoned: for the MaxAbandoned-th time
	Logs      int // entries that were removed
}

// Records are the methods that read what was downloaded.
type Records interface {
	// ListTasks, ListLogs and ListData call each with what the query finds, by id or by time, until
	// it returns an error, which they return. A long list is read in parts, and is no snapshot: what
	// is there all the while comes exactly once. each may call the store.
	ListTasks(ctx context.Context, q Query, each func(Task) error) error
	ListLogs(ctx context.Context, q Query, each func(Log) error) error
	ListData(ctx context.Context, q Query, each func(Data) error) error
	// Body opens the body of a task's result, empty if it had none: ErrNoData. Who opened it can read
	// it to the end, also if the job is dropped, or gets an error.
	Body(ctx context.Context, task string) (io.ReadCloser, error)
}

// Query says which records of a job are wanted.
type Query struct {
	Job   int64
	State State  // of ListTasks; "" for any
	Task  string // only of this one; "" for any
	// Since is for ListLogs: only those that were added then or later; zero for all.
	Since time.Time
	Limit int // 0 for no limit
}

// Names that are held. Each live worker holds WorkerPrefix with its name, ShardPrefix with the number of each shard
// that it has, and a HasName of each thing that it has for jobs, and of each NeedLane. It holds WantedPrefix with the
// number of a shard that another has and is to give up, as that one cannot do some of its tasks.
const (
	DispatcherRole = "dispatcher"
	WorkerPrefix   = "worker/"
	ShardPrefix    = "shard/"
	WantedPrefix   = "wanted/"
)

// Roles are leases of names, such as that of the one dispatcher, or of shards.
type Roles interface {
	// Hold makes owner the holder of those names that are free, whose holder's time has run out, or
	// that it holds already, for ttl from now, and returns them.
	Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error)
	// LetGo frees those of the names that owner holds.
	LetGo(ctx context.Context, owner string, names []string) error
	// Holders are the names with a prefix that are held now, and by whom.
	Holders(ctx context.Context, prefix string) (map[string]string, error)
}
