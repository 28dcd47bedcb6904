package downloads

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// master is the client of the campaign for the downloader.
type master struct {
	url    string
	client *http.Client
}

func newMaster(addr string) *master {
	return &master{"http://" + addr, &http.Client{Timeout: 2 * time.Minute}}
}

// refused is an answer that describes a problem.
type refused struct {
	status int
	text   string
}

func (e *refused) Error() string { return fmt.Sprintf("%d: %s", e.status, e.text) }

func (m *master) call(method, path, media, body string, read func(io.Reader) error) (err error) {
	req, err := http.NewRequest(method, m.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode >= 300 {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(&refused{resp.StatusCode, string(text)}, err)
	}
	return read(resp.Body)
}

// addJob stores a job. If it exists, an earlier call has stored it but its answer was lost.
func (m *master) addJob(text string) error {
	err := m.call(http.MethodPost, "/api/v1/jobs", "application/yaml", text, whole)
	var r *refused
	if errors.As(err, &r) && r.status == http.StatusConflict {
		return nil
	}
	return err
}

// dropJob drops a job. If it does not exist, an earlier call has dropped it but its answer was lost.
func (m *master) dropJob(name string) error {
	err := m.call(http.MethodDelete, "/api/v1/jobs/"+name+"?confirm="+name, "", "", whole)
	var r *refused
	if errors.As(err, &r) && r.status == http.StatusNotFound {
		return nil
	}
	return err
}

// added counts what became of URIs.
type added struct{ Total, Added, Seen, Known int }

func (m *master) addURIs(job string, uris []string) (n added, err error) {
	err = m.call(http.MethodPost, "/api/v1/jobs/"+job+"/uris", "text/plain", strings.Join(uris, "\n")+"\n",
		func(r io.Reader) error { return json.NewDecoder(r).Decode(&n) })
	return n, err
}

// whole reads an answer to its end: a truncated one does not count.
func whole(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// counts returns the tasks of a job by state.
func (m *master) counts(job string) (map[string]int, error) {
	var j struct{ Tasks map[string]int }
	err := m.call(http.MethodGet, "/api/v1/jobs/"+job, "", "", func(r io.Reader) error { return json.NewDecoder(r).Decode(&j) })
	return j.Tasks, err
}

// The records of a job, as far as the judge needs them.
type (
	taskRecord struct {
		ID        string `json:"id"`
		URI       string `json:"uri"`
		State     string `json:"state"`
		Attempts  int    `json:"attempts"`
		Abandoned int    `json:"abandoned"`
		Reason    string `json:"failed_reason"`
	}
	logRecord struct {
		Task    string `json:"task"`
		Attempt int    `json:"attempt"`
		Status  int    `json:"status"`
		Reason  string `json:"failed_reason"`
	}
	dataRecord struct {
		Task   string `json:"task"`
		URI    string `json:"uri"`
		SHA256 string `json:"sha256"`
	}
)

// records calls each with every record of one kind of a job.
func records[T any](m *master, job, kind string, each func(T)) error {
	return m.call(http.MethodGet, "/api/v1/jobs/"+job+"/"+kind, "", "", func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var v T
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				return err
			}
			each(v)
		}
		return lines.Err()
	})
}
