package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// readJob reads the job in a body, and returns where its URIs are. A name in the path, unless it
// is "", must match that of the job. The caller gives t back when it is done with both.
func (m *Master) readJob(w http.ResponseWriter, r *http.Request, t *taken, keep bool) (download.Job, []download.NewTask, error) {
	body, err := t.body(w, r)
	if err != nil {
		return download.Job{}, nil, err
	}
	name := r.URL.Query().Get("file")
	if name == "" || len(name) > 200 {
		name = "job"
	}
	j, source, err := jobfile.Parse(name, body)
	switch {
	case err != nil:
	case len(source.Codes) > 0:
		c := source.Codes[0]
		err = errors.New(name + ": " + c.Key + ": " + strconv.Quote(c.File) + " is a file on the caller's machine: want {file: " + c.File + ", text: ...}; `uridownloader job add` sends the file")
	case source.File != "":
		err = errors.New(name + ": uris: " + strconv.Quote(source.File) + " is a file on the caller's machine: want a list; `uridownloader job add` sends the file")
	case source.URL != "":
		err = errors.New(name + ": uris: the master reads no URLs: want a list, or send the URIs to " + pathOf(j.Name) + "/uris; `uridownloader job add` does so")
	case len(j.Setting.ReportMails) > 0 && !m.Mails:
		err = errors.New(name + ": setting.report_mails: this server sends no mails: leave it out, or have its operator set report.mail_server in uridownloader.yaml")
	}
	if path := r.PathValue("name"); err == nil && path != "" && path != j.Name {
		err = errors.New(name + ": name: " + strconv.Quote(j.Name) + " is not that of the path, " + strconv.Quote(path))
	}
	if key := scriptKey(j); err == nil && key != "" && m.Unable != nil {
		if unable := m.Unable(download.EngineScript); unable != nil {
			err = errors.New(name + ": " + key + ": this machine runs no code of jobs: " + unable.Error())
		}
	}
	if err == nil && j.Setting.Engine == download.EngineBrowser && m.Unable != nil {
		if unable := m.Unable(download.EngineBrowser); unable != nil {
			err = errors.New(name + ": setting.download_engine: browser: this machine runs no browser: " + unable.Error())
		}
	}
	if err == nil && m.Proxy != nil {
		for i, proxy := range j.Setting.Proxies {
			if refused := m.Proxy(proxy); refused != nil {
				err = errors.Join(err, fmt.Errorf("%s: setting.proxy[%d]: %w\nhint: private proxies are those that the operator lists as proxies.allowed in uridownloader.yaml", name, i, refused))
			}
		}
	}
	if err == nil && m.Check != nil {
		err = m.checkScripts(r.Context(), j)
	}
	if err == nil {
		for _, filter := range filtersOf(j) {
			if _, err := m.Filter.Check(r.Context(), filter, []string{"http://example.com/"}); err != nil {
				return j, nil, filterError(err)
			}
		}
	}
	if err == nil {
		return j, source.List, nil
	}
	if keep {
		if kept := m.Store.KeepRefusal(r.Context(), download.Refusal{Name: name, Text: err.Error()}); kept != nil {
			return j, nil, kept
		}
	}
	return j, nil, &problemdetail.Error{Code: CodeInvalidJob, Detail: err.Error()}
}

// scriptKey is the key under which a job has its script, "" if it has none.
func scriptKey(j download.Job) string {
	switch {
	case j.Setting.Engine == download.EngineScript:
		return "setting.download_engine: script"
	case j.Setting.Generate.Code.Text != "":
		return "generate"
	case j.Setting.Parse.Code.Text != "":
		return "parse"
	}
	return ""
}

// checkScripts joins what is wrong with the scripts of a job.
func (m *Master) checkScripts(ctx context.Context, j download.Job) error {
	var faults []error
	for _, s := range []struct {
		of   download.Script
		code download.Code
	}{{download.ScriptGenerate, j.Setting.Generate.Code}, {download.ScriptDownload, j.Code}, {download.ScriptParse, j.Setting.Parse.Code}} {
		if s.code.Text != "" {
			faults = append(faults, m.Check(ctx, s.code, s.of))
		}
	}
	return errors.Join(faults...)
}

// filtersOf returns the names of the filters that a job uses.
func filtersOf(j download.Job) []string {
	names := []string{j.Filter}
	if j.Setting.Generate.Code.Text != "" {
		names = append(names, j.Setting.Generate.Filter)
	}
	if j.Setting.Parse.Code.Text != "" {
		names = append(names, j.Setting.Parse.Filter)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func pathOf(name string) string { return "/api/v1/jobs/" + name }

// inTime limits how long a body may send nothing.
func (m *Master) inTime(w http.ResponseWriter, body io.ReadCloser) io.ReadCloser {
	return &timedBody{body, http.NewResponseController(w), m.BodyTimeout}
}

type timedBody struct {
	io.ReadCloser
	rc      *http.ResponseController
	timeout time.Duration
}

func (b *timedBody) Read(p []byte) (int, error) {
	_ = b.rc.SetReadDeadline(time.Now().Add(b.timeout)) // a recorder in tests has no deadline
	return b.ReadCloser.Read(p)
}

func bodyError(err error, limit int64) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &problemdetail.Error{Code: problemdetail.BodyTooLarge, Detail: "want at most " + strconv.FormatInt(limit, 10) + " bytes (limits.job_bytes); URIs can come in a stream of their own"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problemdetail.Error{Code: problemdetail.RequestTimeout, Cause: err, Header: [2]string{"Connection", "close"}}
	}
	return &problemdetail.Error{Code: problemdetail.IncompleteBody, Cause: err}
}

func (m *Master) checkJob(w http.ResponseWriter, r *http.Request) error {
	t := &taken{m: m}
	defer t.giveBack()
	j, tasks, err := m.readJob(w, r, t, false)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, struct {
		jobJSON
		URIs int `json:"uris"`
	}{jobOf(j, nil), len(tasks)})
}

func (m *Master) addJob(w http.ResponseWriter, r *http.Request) error {
	return m.storeJob(w, r, m.Store.AddJob, "job added", http.StatusCreated)
}

func (m *Master) changeJob(w http.ResponseWriter, r *http.Request) error {
	return m.storeJob(w, r, m.Store.ChangeJob, "job changed", http.StatusOK)
}

// storeJob stores a job that came in, adds the URIs that came with it, and sends the answer.
func (m *Master) storeJob(w http.ResponseWriter, r *http.Request, store func(context.Context, download.Job) (download.Job, error), done string, status int) error {
	t := &taken{m: m}
	defer t.giveBack()
	j, tasks, err := m.readJob(w, r, t, true)
	if err != nil {
		return err
	}
	if j, err = store(r.Context(), j); err != nil {
		return err
	}
	m.Log.Info(done, "job", j.Name, "version", j.Version, "uris", len(tasks), "remote", r.RemoteAddr)
	var n Added
	if err := m.add(r.Context(), j, tasks, &n); err != nil {
		p := *problemOf(err) // a further POST would be refused, as the job is there
		p.Detail, p.Cause = "the job is stored, its URIs may not be: PUT "+pathOf(j.Name)+" sends them again, as does `uridownloader job change`: "+p.Detail, err
		return &p
	}
	m.tell()
	return answer(w, status, struct {
		jobJSON
		URIs Added `json:"uris"`
	}{jobOf(j, nil), n})
}

func (m *Master) tell() {
	if m.Added != nil {
		m.Added()
	}
}

func (m *Master) listJobs(w http.ResponseWriter, r *http.Request) error {
	jobs, err := m.Store.ListJobs(r.Context())
	if err != nil {
		return err
	}
	all := []jobJSON{}
	for _, j := range jobs {
		counts, err := m.Store.Counts(r.Context(), j.ID)
		if errors.Is(err, download.ErrNoJob) {
			continue // it has been dropped meanwhile
		}
		if err != nil {
			return err
		}
		all = append(all, jobOf(j, counts))
	}
	return answer(w, http.StatusOK, map[string]any{"jobs": all})
}

func (m *Master) showJob(w http.ResponseWriter, r *http.Request) error {
	j, err := m.Store.Job(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	counts, err := m.Store.Counts(r.Context(), j.ID)
	if err != nil {
		return err
	}
	can, err := download.AbilityIn(r.Context(), m.Store)
	if err != nil {
		return err
	}
	shown := jobOf(j, counts)
	shown.Blocked = blocked(can, j, counts)
	return answer(w, http.StatusOK, shown)
}

func (m *Master) dropJob(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if r.URL.Query().Get("confirm") != name {
		return &problemdetail.Error{Code: CodeConfirm, Detail: "add ?confirm=" + name + ": its tasks, data and logs are removed with it"}
	}
	if err := m.Store.DropJob(r.Context(), name); err != nil {
		return err
	}
	m.Log.Info("job dropped", "job", name, "remote", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (m *Master) pause(w http.ResponseWriter, r *http.Request) error { return m.turn(w, r, false) }

func (m *Master) resume(w http.ResponseWriter, r *http.Request) error {
	if err := m.turn(w, r, true); err != nil {
		return err
	}
	m.tell()
	return nil
}

func (m *Master) turn(w http.ResponseWriter, r *http.Request, on bool) error {
	name := r.PathValue("name")
	if err := m.Store.SwitchJob(r.Context(), name, on); err != nil {
		return err
	}
	m.Log.Info("job switched", "job", name, "on", on, "remote", r.RemoteAddr)
	return m.showJob(w, r)
}

func (m *Master) refusals(w http.ResponseWriter, r *http.Request) error {
	n, err := limit(r)
	if err != nil {
		return err
	}
	all, err := m.Store.Refusals(r.Context(), cmp.Or(n, download.MaxRefusals))
	if err != nil {
		return err
	}
	type refusal struct {
		Name  string    `json:"name"`
		Text  string    `json:"text"`
		Added time.Time `json:"added"`
	}
	list := make([]refusal, len(all))
	for i, f := range all {
		list[i] = refusal{f.Name, uris.Redact(f.Text), f.Added.UTC()}
	}
	return answer(w, http.StatusOK, map[string]any{"refusals": list})
}

// generate makes a run of the job's script generate now, in addition to those of its schedule. A
// caller that asks twice within a second gets one run.
func (m *Master) generate(w http.ResponseWriter, r *http.Request) error {
	j, err := m.Store.Job(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	if j.Setting.Generate.Code.Text == "" {
		return &noScriptError{j.Name, download.ScriptGenerate}
	}
	now, err := m.Store.Now(r.Context())
	if err != nil {
		return err
	}
	run := j.GenerateRun(now)
	added, err := m.Store.AddTasks(r.Context(), j.ID, []download.NewTask{run})
	if err != nil {
		return err
	}
	m.Log.Info("run of generate added", "job", j.Name, "run", run.URI, "new", added == 1, "remote", r.RemoteAddr)
	m.tell()
	return answer(w, http.StatusOK, struct {
		Run    string `json:"run"` // the URI of its task
		Task   string `json:"task"`
		Added  bool   `json:"added"`  // false: this run existed already
		Status string `json:"status"` // of the job: if it is off, none of its tasks are handed out
	}{run.URI, download.TaskID(j.ID, run.URI), added == 1, jobOf(j, nil).Status})
}

// noScriptError is returned for a job that has no such script.
type noScriptError struct {
	job string
	of  download.Script
}

func (e *noScriptError) Error() string {
	return "job " + e.job + " has no script " + string(e.of) + ": give it one, and then `uridownloader job change`"
}
