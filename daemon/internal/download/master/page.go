package master

import (
	"cmp"
	"context"
	"embed"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

const (
	// pageFresh is how long browsers share one look at the jobs, which costs several calls of the store for each.
	pageFresh = 3 * time.Second
	// pagePatience bounds how long a page waits for the store.
	pagePatience = 10 * time.Second
	// latestShown is how many attempts the page of a job has, refusalsShown how many refused jobs the first page.
	latestShown   = 20
	refusalsShown = 5

	pathJobs = page.Prefix + "jobs/"
)

//go:embed pages/*.html
var pageFiles embed.FS

func (m *Master) newSite() *page.Site {
	files, err := fs.Sub(pageFiles, "pages")
	if err != nil {
		panic(err)
	}
	site := page.New(page.Options{
		Program: "uridownloader", Version: m.Version, Templates: files, Texts: pageTexts, Guard: m.access, Read: ScopeRead, API: m,
		Changed: m.jobsSeen.Drop,
		Log:     func(err error) { m.Log.Error("page failed", "err", err) },
		Explain: func(err error) (int, string, string) {
			p := problemOf(err)
			e, known := codes()[p.Code]
			if !known {
				return http.StatusInternalServerError, codes()["internal"].Title, ""
			}
			return e.Status, e.Title, p.Detail
		},
	})
	site.Page("/{$}", "jobs", m.jobsPage)
	site.Page(pathJobs+"{name}", "job", m.jobPage)
	back := func(name string) string { return pathJobs + page.Escaped(name) }
	post := func(verb string) func(string, url.Values) (string, string, any) {
		return func(name string, _ url.Values) (string, string, any) {
			return http.MethodPost, pathOf(page.Escaped(name)) + "/" + verb, nil
		}
	}
	for _, a := range []page.Action{
		{Path: "pause", Scope: ScopeSubmit, Text: "pause", Back: back, Call: post("pause")},
		{Path: "resume", Scope: ScopeSubmit, Text: "resume", Back: back, Call: post("resume")},
		{Path: "retry", Scope: ScopeSubmit, Text: "retry", Back: back, Call: post("retry")},
		{Path: "drop", Scope: ScopeAdmin, Text: "drop", Danger: true, Back: func(string) string { return "/" }, Call: func(name string, _ url.Values) (string, string, any) {
			return http.MethodDelete, pathOf(page.Escaped(name)) + "?confirm=" + url.QueryEscape(name), nil
		}},
	} {
		a.Path = pathJobs + "{name}/" + a.Path
		site.Act(a)
	}
	return site
}

// page is one of the pages for people. Each checks the token itself, which may be that of a session.
func (m *Master) page(w http.ResponseWriter, r *http.Request) error {
	m.site.ServeHTTP(w, r)
	return nil
}

// jobsLook is how all jobs are at one time.
type jobsLook struct {
	Activity
	Ready    string // why the process is not; "": it is
	Rows     []jobRow
	Total    jobTasks
	On       int
	Refusals []download.Refusal
	Notes    page.Notes
}

// jobRow is one job.
type jobRow struct {
	ActiveJob
	jobTasks
}

// jobTasks are numbers of tasks.
type jobTasks struct{ Waiting, Running, Done, Failed uint64 }

// Sum is how many there are.
func (t jobTasks) Sum() uint64 { return t.Waiting + t.Running + t.Done + t.Failed }

func tasksOf(by map[string]int) jobTasks {
	of := func(state download.State) uint64 { return uint64(by[string(state)]) }
	return jobTasks{of(download.Waiting), of(download.Ready) + of(download.Running), of(download.Done), of(download.Failed)}
}

// Bar is the tasks as parts of a hundred, with the place where each begins: done, failed, running; the rest waits.
func (t jobTasks) Bar() (parts [3]struct {
	Class     string
	At, Width float64
}) {
	at, all := 0.0, float64(max(1, t.Sum()))
	for i, n := range []uint64{t.Done, t.Failed, t.Running} {
		parts[i].Class, parts[i].At, parts[i].Width = []string{"fill", "failed", "running"}[i], at, float64(n)/all*100
		at += parts[i].Width
	}
	return parts
}

func (m *Master) jobsNow(ctx context.Context) *jobsLook {
	l, _ := m.jobsSeen.Get(time.Now, func() (*jobsLook, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pagePatience) // it is for others, too
		defer cancel()
		return m.lookAtJobs(ctx), nil
	})
	return l
}

// lookAtJobs looks. If the store does not answer, there are no jobs, and a note that says so.
func (m *Master) lookAtJobs(ctx context.Context) *jobsLook {
	l := &jobsLook{}
	note := func(level, of, key string, args ...any) {
		n := page.Note{Of: of, Key: key, Args: args, Level: level}
		if of != "" {
			n.Link = pathJobs + page.Escaped(of)
		}
		l.Notes = append(l.Notes, n)
	}
	var err error
	if m.Ready != nil {
		err = m.Ready(ctx)
	}
	if err == nil {
		l.Activity, err = m.activityNow(ctx, time.Time{})
	}
	if err == nil {
		l.Refusals, err = m.Store.Refusals(ctx, refusalsShown)
	}
	for i := range l.Refusals {
		l.Refusals[i].Text = uris.Redact(l.Refusals[i].Text)
	}
	if err != nil {
		p := problemOf(err)
		if l.Ready = p.Detail; p.Detail == "" || p.Code == problemdetail.StoreUnavailable {
			l.Ready = "the store does not answer"
		}
		note("bad", "", "note.notready", l.Ready)
		return l
	}
	waits := false
	for _, j := range l.Jobs {
		row := jobRow{j, tasksOf(j.Tasks)}
		l.Rows = append(l.Rows, row)
		l.Total = jobTasks{l.Total.Waiting + row.Waiting, l.Total.Running + row.Running, l.Total.Done + row.Done, l.Total.Failed + row.Failed}
		if j.Status == "on" {
			l.On++
			waits = waits || row.Waiting+row.Running > 0
		}
		for _, why := range j.Blocked {
			note("warn", j.Name, "note.blocked", why)
		}
	}
	if waits && l.Dispatcher == "" {
		note("bad", "", "note.dispatcher")
	}
	if waits && len(l.Workers) == 0 {
		note("bad", "", "note.workers")
	}
	if l.ErrorsCut {
		note("warn", "", "note.cut")
	}
	l.Notes = l.Notes.Sorted()
	return l
}

func (m *Master) jobsPage(v *page.View) (any, error) {
	l := m.jobsNow(v.Request.Context())
	byNumber := func(of func(jobRow) uint64) func(a, b jobRow) int {
		return func(a, b jobRow) int { return cmp.Compare(of(b), of(a)) }
	}
	matches := func(j jobRow, q string) bool {
		return strings.Contains(strings.ToLower(j.Name), q) || j.Status == q || slices.ContainsFunc(j.Hosts, func(h ActiveHost) bool { return strings.Contains(h.Host, q) })
	}
	return struct {
		*jobsLook
		page.List[jobRow]
	}{l, page.Listed(v, l.Rows, matches, map[string]func(a, b jobRow) int{
		"waiting": byNumber(func(j jobRow) uint64 { return j.Waiting }), "running": byNumber(func(j jobRow) uint64 { return j.Running }),
		"done": byNumber(func(j jobRow) uint64 { return j.Done }), "failed": byNumber(func(j jobRow) uint64 { return j.Failed }),
		"priority": func(a, b jobRow) int { return cmp.Compare(b.Priority, a.Priority) },
	})}, nil
}

func (m *Master) jobPage(v *page.View) (any, error) {
	ctx, cancel := context.WithTimeout(v.Request.Context(), pagePatience)
	defer cancel()
	j, err := m.Store.Job(ctx, v.Request.PathValue("name"))
	if err != nil {
		return nil, err
	}
	counts, err := m.Store.Counts(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	shown := struct {
		Job     jobJSON
		Tasks   jobTasks
		Row     jobRow
		Reasons []AttemptErrors
		Latest  []logJSON
		Notes   page.Notes
	}{Job: jobOf(j, counts)}
	shown.Tasks = tasksOf(shown.Job.Tasks)
	all := m.jobsNow(ctx)
	for _, row := range all.Rows {
		if row.Name == j.Name {
			shown.Row = row
		}
	}
	for _, e := range all.Errors {
		if e.Job == j.Name {
			shown.Reasons = append(shown.Reasons, e)
		}
	}
	for _, n := range all.Notes {
		if n.Of == j.Name || n.Level == "bad" {
			shown.Notes = append(shown.Notes, n)
		}
	}
	shown.Latest, err = m.latest(ctx, j.ID)
	return shown, err
}

// latest returns the newest attempts of a job, the last one first.
func (m *Master) latest(ctx context.Context, job int64) (found []logJSON, err error) {
	err = m.Store.ListLogs(ctx, download.Query{Job: job, Newest: true, Limit: latestShown}, func(l download.Log) error {
		found = append(found, logOf(l))
		return nil
	})
	return found, err
}
