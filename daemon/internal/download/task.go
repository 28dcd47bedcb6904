package download

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// State is where a task is in its life. docs/downloader.md has the diagram.
type State string

const (
	Waiting State = "waiting" // to be handed out, from NotBefore on
	Ready   State = "ready"   // handed out, for the next worker; waiting again after Until
	Running State = "running" // leased to a worker, until Until
	Done    State = "done"    // its result is stored
	Failed  State = "failed"  // will not be tried again
)

// States returns all states, in the order in which a task passes through them.
func States() []State { return []State{Waiting, Ready, Running, Done, Failed} }

// Task is one URI of a job. All times are by the store's clock.
type Task struct {
	ID        string // see TaskID
	Job       int64
	URI       string
	Shard     int // of its host, from 0 to Shards-1; see ShardOf
	State     State
	Attempts  int       // those that their worker settled, and the one that runs
	Abandoned int       // leases that ended because their worker did not renew them; see MaxAbandoned
	NotBefore time.Time // from when it waits; zero for Running, Done and Failed
	Until     time.Time // for Ready and Running, else zero
	Owner     string    // the worker that holds it, if Running
	// Fence counts the leases of the task. Only the newest lease can settle it.
	Fence  int64
	Reason string // why the last attempt failed
	Added  time.Time
}

// Shards is the number of shards that hosts hash to. A worker leases shards, so that each host
// has one worker, which keeps to the host's pace.
const Shards = 256

// NewTask is a URI that is to become a task, with the shard of its host.
type NewTask struct {
	URI   string
	Shard int
}

// Lease is the right of a worker to settle a task until the store's clock reaches Until.
type Lease struct {
	Task    Task // as it was leased: Attempts includes this one
	Version int  // of the job when it was leased
}

// Result is what a successful attempt stores.
type Result struct {
	URI         string // after redirects
	Status      int
	Header      http.Header // bytes that are not UTF-8 are replaced
	ContentType string
	Encoding    string    // as declared, or as detected
	Body        io.Reader // nil for none; the store reads it to the end, once
	Records     []byte    // JSON, one value a line, of the job's code; nil for none
}

// WholeBody may be implemented by the Body of a [Result] that is in memory with its SHA-256. A
// store may then use these bytes until its call returns, without reading and hashing them; it must
// not change them. ok is false if the body has to be read.
type WholeBody interface {
	Whole() (whole []byte, sum [sha256.Size]byte, ok bool)
}

// Data is the stored [Result] of a task. A task has at most one that can be read.
type Data struct {
	Job         int64
	Task        string
	Version     int
	TaskURI     string
	URI         string
	Status      int
	Header      http.Header
	ContentType string
	Encoding    string
	Size        int64  // of the body, bytes
	SHA256      string // of the body, hex
	Records     []byte
	HostName    string // of the worker's machine
	Added       time.Time
}

// Attempt is a worker's report of an attempt that has ended: it becomes a [Log].
type Attempt struct {
	Status   int           // of HTTP, 0 if there was no answer
	Reason   string        // "" for success; cut to MaxReason bytes
	HostName string        // of the worker's machine
	Spent    time.Duration // kept in microseconds
}

// MaxReason is how many bytes of a reason are kept.
const MaxReason = 10240

// CutReason returns a reason as it is kept: valid UTF-8, cut to MaxReason bytes between two runes.
func CutReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= MaxReason {
		return reason
	}
	end := MaxReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// MaxAbandoned is how many leases of a task may be abandoned. The task then fails, as it may be
// what kills workers. When a worker dies, nobody knows which of its tasks it had begun, so none of
// them counts as an attempt, and the bound is generous.
const MaxAbandoned = 20

// Abandoned is the reason that is logged when a worker has abandoned the nth lease of a task.
func Abandoned(owner string, n int) string {
	reason := abandoned + ": worker " + owner + " did not renew its lease: it stopped, or could not reach the store"
	if n >= MaxAbandoned {
		reason += fmt.Sprintf("; this was the %dth lease of the task to end so, and it gets no other", n)
	}
	return reason
}

const abandoned = "abandoned"

// ReasonWord is the word that a reason begins with and by which attempts are counted: timeout, status, ...
// It is "other" where there is none.
func ReasonWord(reason string) string {
	word, _, _ := strings.Cut(reason, ":")
	switch {
	case strings.HasPrefix(word, "worker ") && strings.Contains(word+reason, " did not renew its lease"):
		return abandoned // as earlier versions wrote it
	case word == "" || len(word) > 40 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return "other"
	}
	return word
}

// PauseAbandoned is how long a task waits after its nth lease was abandoned: not at all after the
// first, then up to 10 seconds more each time, depending on its id. So tasks that were leased together
// do not stay together, and one that kills workers reaches the bound before its neighbours do.
func PauseAbandoned(id string, n int) time.Duration {
	if n < 2 {
		return 0
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, id, n) // never fails
	return time.Duration(n-1) * time.Duration(h.Sum32()%10_000) * time.Millisecond
}

// Log describes one attempt.
type Log struct {
	Job     int64
	Task    string
	TaskURI string
	Number  int // of the attempt, from 1; 0 for a lease that was abandoned
	Version int
	Attempt
	Added time.Time
}
