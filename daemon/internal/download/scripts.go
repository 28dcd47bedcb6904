package download

import (
	"strconv"
	"strings"
	"time"
)

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
