package download

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// Script is one of the three scripts of a job, by the name of its function.
type Script string

const (
	ScriptGenerate Script = "generate" // makes URIs, on a schedule
	ScriptDownload Script = "download" // downloads a URI
	ScriptParse    Script = "parse"    // takes a stored page apart
)

// Generate is the script of a job that makes URIs. The zero Generate means none.
type Generate struct {
	Code   Code
	Every  time.Duration // between the starts of two runs; 0: one run of each version of the job
	Filter string        // is asked which of the URIs are new, before the job's filter; "" for none
	Host   string        // it fetches from this host, so that the worker of that host runs it; "" for none
}

// Parse is the script of a job that runs on each stored page. The zero Parse means none.
type Parse struct {
	Code   Code
	Filter string // is asked whether the URI of the page is new; "" for none
}

// The runs of these two scripts are tasks of their job, as durable as any, with URIs of schemes that
// no caller can give (see [TaskOf]):
//
//	generate:2026-11-23T04:00:00Z    the run of that time
//	generate:v2                      the one run of version 2
//	parse:https://example.com/       the run on the page of that URI
//
// As a job has one task per URI, making such a task twice is harmless.
const (
	generateScheme = "generate:"
	parseScheme    = "parse:"
)

// GenerateRun is the run that is due at a time; for the zero time, the one run of this version of j.
func (j Job) GenerateRun(at time.Time) NewTask {
	run := "v" + strconv.Itoa(j.Version)
	if !at.IsZero() {
		run = at.UTC().Format(time.RFC3339)
	}
	host := j.Setting.Generate.Host
	if host == "" { // any worker: this run belongs to no particular host
		host = generateScheme + j.Name
	}
	return NewTask{URI: generateScheme + run, Shard: ShardOf(host)}
}

// ParseRun is the run on the page of a task. It belongs to the worker of the page's host.
func ParseRun(t Task) NewTask { return NewTask{URI: parseScheme + t.URI, Shard: t.Shard} }

// Script is the script that a task is a run of, or [ScriptDownload] if its URI is to be
// downloaded, by any engine.
func (t Task) Script() Script {
	switch {
	case strings.HasPrefix(t.URI, generateScheme):
		return ScriptGenerate
	case strings.HasPrefix(t.URI, parseScheme):
		return ScriptParse
	}
	return ScriptDownload
}

// Due returns when a run of generate was due; without a schedule, when it was added.
func (t Task) Due() time.Time {
	if at, err := time.Parse(time.RFC3339, strings.TrimPrefix(t.URI, generateScheme)); err == nil {
		return at
	}
	return t.Added.UTC().Truncate(time.Second)
}

// PageOf returns the URI of the page of a run of parse; other URIs are returned unchanged.
func PageOf(uri string) string { return strings.TrimPrefix(uri, parseScheme) }

// NeedPython is what a worker needs for scripts in Python, besides the engines.
const NeedPython = "python"

// Needs returns all that a worker needs for the tasks of the job, in order: engines, and NeedPython.
func (j Job) Needs() []string {
	needs := []string{j.Setting.Engine}
	for _, code := range []Code{j.Code, j.Setting.Generate.Code, j.Setting.Parse.Code} {
		switch {
		case code.Text == "":
		case code.Language == LanguagePython:
			needs = append(needs, EngineScript, NeedPython)
		default:
			needs = append(needs, EngineScript)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// NeedLane is what a worker needs for tasks of a lane: it must serve that lane.
func NeedLane(lane Lane) string { return "prior:" + string(lane) }

// Serves reports whether a worker with these wants may have tasks of a job with all of these needs.
func (w Want) Serves(needs []string) bool {
	return w.Has == nil || !slices.ContainsFunc(needs, func(need string) bool { return !slices.Contains(w.Has, need) })
}

// HasPrefix begins the names by which a live worker says what it has: see HasName.
const HasPrefix = "has/"

// HasName is the name that a worker holds to say that it meets a need.
func HasName(need, owner string) string { return HasPrefix + need + "/" + owner }

// Lacking returns for each need which of the live workers do not meet it, by the names that Holders has
// found for HasPrefix. A worker that holds no such name is of an older release, and meets all needs.
func Lacking(needs []string, workers []string, holders map[string]string) map[string][]string {
	says := map[string]bool{}
	for name, owner := range holders {
		if strings.HasPrefix(name, HasPrefix) {
			says[owner] = true
		}
	}
	lacking := map[string][]string{}
	for _, need := range needs {
		for _, worker := range workers {
			if says[worker] && holders[HasName(need, worker)] == "" {
				lacking[need] = append(lacking[need], worker)
			}
		}
	}
	return lacking
}

// Unable returns those live workers that cannot do all that a job needs, or do not serve its lane.
func (j Job) Unable(workers []string, holders map[string]string) []string {
	var unable []string
	for _, those := range Lacking(append(j.Needs(), NeedLane(j.Setting.Lane)), workers, holders) {
		unable = append(unable, those...)
	}
	slices.Sort(unable)
	return slices.Compact(unable)
}

// Level gives n places to queues that have some places already: each to one that has the fewest then, of
// several to the first. It returns how many each queue gets.
func Level(have []int, n int) []int {
	gets := make([]int, len(have))
	if len(have) == 0 || n <= 0 {
		return gets
	}
	order := make([]int, len(have))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(have[a], have[b]) })
	same := 1 // the first ones in order that come to the same level
	for same < len(order) {
		need := same * (have[order[same]] - have[order[same-1]])
		if need > n {
			break
		}
		n -= need
		same++
	}
	top := have[order[same-1]]
	lowest := slices.Clone(order[:same])
	slices.Sort(lowest)
	for i, at := range lowest {
		gets[at] = top - have[at] + n/same
		if i < n%same {
			gets[at]++
		}
	}
	return gets
}
