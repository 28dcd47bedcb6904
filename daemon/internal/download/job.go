package download

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Job is a set of URIs, each of which is a [Task], with their settings and optional code.
type Job struct {
	ID   int64 // assigned by the store, never reused
	Name string
	// Priority is from 0 to 9. Tasks of a higher priority are handed out first;
	// docs/downloader.md says how long a low one can wait.
	Priority int
	On       bool // tasks are handed out
	// Filter is the name of the filter that is asked before a URI becomes a task, or "" for none.
	Filter   string
	Version  int // of the Setting and the Code, from 1
	Setting  Setting
	Code     Code
	Added    time.Time
	Changed  time.Time // when the version was made
	Reported int       // the number of tasks when their end was last reported, see MarkReported
}

// Lane says which workers may take the tasks of a job, and which tasks come first.
type Lane string

const (
	Normal  Lane = "normal"
	Urgency Lane = "urgency" // before all of normal
	Foreign Lane = "foreign" // only for workers that say they serve it, because they are in another country
)

// Lanes returns all lanes.
func Lanes() []Lane { return []Lane{Urgency, Normal, Foreign} }

// Engines download a task.
const (
	EngineHTTP    = "http"
	EngineBrowser = "browser"
	EngineScript  = "script"
)

// Setting says how the tasks of a job are downloaded. It does not change within a version of
// the job.
type Setting struct {
	// Dispatch is how many tasks of the job may be handed out and not yet settled at any time.
	Dispatch    int
	Engine      string
	Lane        Lane
	Timeout     time.Duration // of one attempt, at most MaxTimeout
	MaxAttempts int
	Delay       time.Duration // between the starts of two requests to one host
	Concurrency int           // requests to one host at once
	Robots      bool          // robots.txt is obeyed
	Proxies     []string      // URLs; each attempt uses one of them
	Cookie      string        // the Cookie header of each request
	KeepCookies bool          // later attempts of the worker send back the cookies that servers set
	Headers     map[string]string
	MaxBytes    int64  // of a body, decompressed
	Script      string // JavaScript that runs in the page, for EngineBrowser
	ReportMails []string
	Generate    Generate // its code is a separate script, and so is that of Parse
	Parse       Parse
}

// Equal reports whether two settings are the same; an empty list equals nil.
func (s Setting) Equal(o Setting) bool {
	same := slices.Equal(s.Proxies, o.Proxies) && maps.Equal(s.Headers, o.Headers) && slices.Equal(s.ReportMails, o.ReportMails)
	s.Proxies, s.Headers, s.ReportMails = nil, nil, nil
	o.Proxies, o.Headers, o.ReportMails = nil, nil, nil
	return same && reflect.DeepEqual(s, o)
}

// MaxTimeout is the longest that an attempt may take.
const MaxTimeout = 5 * time.Minute

// LanguagePython is the Language of a [Code] that runs in Python.
const LanguagePython = "python"

// Code is the program of a job, for EngineScript. The zero Code means none.
type Code struct {
	Language string // "starlark" or "python"
	File     string // the name shown in errors
	Text     string
}

// SHA256 is the digest of the text in hex.
func (c Code) SHA256() string {
	sum := sha256.Sum256([]byte(c.Text))
	return hex.EncodeToString(sum[:])
}

// TaskID is the id of the task of a URI: 32 hex digits. It depends only on job and URI, so each
// URI of a job has one task.
func TaskID(job int64, uri string) string {
	sum := sha256.Sum256(append(strconv.AppendInt(nil, job, 10), " "+uri...))
	return hex.EncodeToString(sum[:16])
}
