package master

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// retryTogether is how many tasks one call of the store makes waiting.
const retryTogether = 1000

// retry makes failed tasks of a job waiting again: all, or those with one of some reasons, of one of some hosts.
func (m *Master) retry(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	for name := range query {
		if name != "reason" && name != "host" {
			return &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: strconv.Quote(name) + ": want reason or host"}
		}
	}
	var hosts []string
	for _, text := range query["host"] {
		host := download.HostOf("http://" + text + "/")
		if host == "" {
			return &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: "host " + strconv.Quote(text) + ": want a name or an address, such as www.example.com"}
		}
		hosts = append(hosts, host)
	}
	j, err := m.Store.Job(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	retried := 0
	var ids []string
	send := func() error {
		n, err := m.Store.Retry(r.Context(), j.ID, ids)
		retried += n
		ids = nil
		return err
	}
	err = m.Store.ListTasks(r.Context(), download.Query{Job: j.ID, State: download.Failed}, func(t download.Task) error {
		if reasons := query["reason"]; len(reasons) > 0 && !slices.Contains(reasons, download.ReasonWord(t.Reason)) {
			return nil
		}
		if len(hosts) > 0 && !slices.Contains(hosts, download.HostOf(download.PageOf(t.URI))) {
			return nil
		}
		if ids = append(ids, t.ID); len(ids) == retryTogether {
			return send()
		}
		return nil
	})
	if err == nil && len(ids) > 0 {
		err = send()
	}
	if err != nil {
		return err
	}
	m.Log.Info("failed tasks are tried again", "job", j.Name, "tasks", retried, "remote", r.RemoteAddr)
	m.tell()
	return answer(w, http.StatusOK, struct {
		Retried int    `json:"retried"`
		Status  string `json:"status"` // of the job: if it is off, none of its tasks are handed out
	}{retried, jobOf(j, nil).Status})
}
