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
	ScriptParse    Script = "parse"    // takes a page apart that was stored
)

// Generate is the script of a job that makes URIs. The zero Generate is none.
type Generate struct {
	Code   Code
	Every  time.Duration // between the starts of two runs; 0: one run of each version of the job
	Filter string        // is asked which of the URIs are new, before the job's filter; "" for none
	Host   string        // that it fetches from, so that the worker of that host runs it; "" for none
}

// Parse is the script of a job that runs on each page that was stored. The zero Parse is none.
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
// As a job has one task per URI, adding such a task twice has no effect.
const (
	generateScheme = "generate:"
	parseScheme    = "parse:"
)

// GenerateRun returns the run that is due at a time; zero: the one run of the version of j.
func (j Job) GenerateRun(at time.Time) NewTask {
	run := "v" + strconv.Itoa(j.Version)
	if !at.IsZero() {
		run = at.UTC().Format(time.RFC3339)
	}
	host := j.Setting.Generate.Host
	if host == "" { // any worker: that of no host in particular
		host = generateScheme + j.Name
	}
	return NewTask{URI: generateScheme + run, Shard: ShardOf(host)}
}

// ParseRun returns the run on the page of a task. The worker of the page's host gets it.
func ParseRun(t Task) NewTask { return NewTask{URI: parseScheme + t.URI, Shard: t.Shard} }

// Script returns the script that the task runs; [ScriptDownload] if the task is a URI to download
// by any engine.
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
