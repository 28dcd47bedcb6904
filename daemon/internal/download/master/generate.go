package master

import (
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

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
