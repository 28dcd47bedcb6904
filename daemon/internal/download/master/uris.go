package master

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// addBatch is how many URIs are added at once.
const addBatch = 1000

// maxLine is the longest line with a URI, in bytes: in JSON each byte may be an escape.
const maxLine = 6 * download.MaxURI

// Added counts what became of the URIs that came in.
type Added struct {
	Total int `json:"total"`
	Added int `json:"added"` // are now tasks
	Seen  int `json:"seen"`  // the job's filter knew them
	Known int `json:"known"` // were tasks of the job before, or came twice
	// Invalid were skipped, as the caller asked.
	Invalid int `json:"invalid,omitempty"`
}

// addURIs adds the URIs in the body, one per line, in parts: after an error, the lines before the
// one that it names have been added, and it is safe to send all of them again. With
// skip_invalid=true a line that is no URI is counted, and is no error.
func (m *Master) addURIs(w http.ResponseWriter, r *http.Request) error {
	j, err := m.Store.Job(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var uri func(line []byte) (string, error)
	switch media {
	case "text/plain":
		uri = func(line []byte) (string, error) { return string(line), nil }
	case "application/x-ndjson":
		uri = func(line []byte) (s string, err error) {
			if !utf8.Valid(line) { // otherwise it would be read as another text
				return string(line), nil
			}
			if err = json.Unmarshal(line, &s); err != nil {
				err = errors.New(`want a JSON string, such as "https://example.com/"`)
			}
			return s, err
		}
	default:
		return &problemdetail.Error{Code: problemdetail.UnsupportedMedia, Detail: strconv.Quote(media) + ": want text/plain or application/x-ndjson, a URI a line"}
	}
	skip := false
	switch asked := r.URL.Query().Get("skip_invalid"); asked {
	case "true":
		skip = true
	case "", "false":
	default:
		return &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: "skip_invalid: " + strconv.Quote(asked) + ": want true or false"}
	}
	var n Added
	defer func() {
		if n.Added > 0 {
			m.tell()
		}
	}()
	lines := bufio.NewScanner(m.inTime(w, r.Body))
	lines.Buffer(nil, maxLine)
	long := false // the line is longer than the buffer: this is the end of it
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		switch ends := bytes.IndexByte(data, '\n') >= 0; {
		case !ends && lines.Err() != nil: // the body broke off in this line
			return 0, nil, nil
		case !ends && len(data) >= maxLine:
			long = true
			return len(data), nil, nil
		case long && len(data) == 0 && atEOF:
			return 0, []byte{}, nil
		}
		return bufio.ScanLines(data, atEOF)
	})
	var tasks []download.NewTask
	for line := 1; lines.Scan(); line++ {
		read := lines.Bytes()
		if line == 1 {
			read = bytes.TrimPrefix(read, []byte("\ufeff")) // editors on Windows begin a file with it
		}
		if len(bytes.TrimSpace(read)) == 0 && !long {
			continue
		}
		text, err := uri(read)
		task, wrong := download.TaskOf(text)
		if err = errors.Join(err, wrong); long {
			long, err = false, errors.New("is longer than "+strconv.Itoa(maxLine)+" bytes")
		}
		if err != nil {
			m.uris.WithLabelValues("refused").Inc()
			if skip {
				n.Total++
				n.Invalid++
				continue
			}
			if added := m.add(r.Context(), j, tasks, &n); added != nil {
				return added
			}
			return &problemdetail.Error{Code: CodeInvalidURI, Detail: "line " + strconv.Itoa(line) + ": " + strings.ReplaceAll(err.Error(), "\n", ": ") + "; those before it are added"}
		}
		if tasks = append(tasks, task); len(tasks) == addBatch {
			if err := m.add(r.Context(), j, tasks, &n); err != nil {
				return err
			}
			tasks = tasks[:0]
		}
	}
	if err := m.add(r.Context(), j, tasks, &n); err != nil {
		return err
	}
	if err := lines.Err(); err != nil {
		return bodyError(err, 0)
	}
	return answer(w, http.StatusOK, n)
}

// add makes tasks of those URIs that the job's filter does not know, and counts them all in n. It does so
// even if the caller has gone meanwhile: the URIs are read, and those of a job that is stored would be missing.
func (m *Master) add(ctx context.Context, j download.Job, tasks []download.NewTask, n *Added) error {
	n.Total += len(tasks)
	count, err := m.Intake.Add(context.WithoutCancel(ctx), j, tasks)
	if of := (*intake.FilterError)(nil); errors.As(err, &of) {
		return filterError(of.Err)
	}
	if err != nil {
		return err
	}
	n.Added += count.Added
	n.Seen += count.Seen
	n.Known += count.Known
	for outcome, count := range map[string]int{"added": count.Added, "seen": count.Seen, "known": count.Known} {
		m.uris.WithLabelValues(outcome).Add(float64(count))
	}
	return nil
}

func filterError(err error) error {
	var unknown *seen.UnknownError
	if errors.As(err, &unknown) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return &problemdetail.Error{Code: problemdetail.StoreUnavailable, Detail: "the filter cannot be reached; nothing is lost, send it again", Cause: err}
}

// retryTogether is how many tasks one call of the store makes waiting.
const retryTogether = 1000

// maxReasons is how many reasons an answer counts one by one: the code of a job may make as many as it likes.
const maxReasons = 100

// retry makes failed tasks of a job waiting again: all, or those with one of some reasons, of one of some hosts.
func (m *Master) retry(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
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
	retried, left := 0, map[string]int{}
	var ids []string
	send := func() error {
		n, err := m.Store.Retry(r.Context(), j.ID, ids)
		retried += n
		ids = nil
		return err
	}
	err = m.Store.ListTasks(r.Context(), download.Query{Job: j.ID, State: download.Failed}, func(t download.Task) error {
		reason, reasons := download.ReasonWord(t.Reason), query["reason"]
		if len(reasons) > 0 && !slices.Contains(reasons, reason) ||
			len(hosts) > 0 && !slices.Contains(hosts, download.HostOf(download.PageOf(t.URI))) {
			if left[reason] == 0 && len(left) >= maxReasons {
				reason = "other"
			}
			left[reason]++
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
		Retried int            `json:"retried"`
		Left    map[string]int `json:"left"`   // failed tasks that were not asked for, by reason: reasons are an open list, and a mistyped one is no error
		Status  string         `json:"status"` // of the job: if it is off, none of its tasks are handed out
	}{retried, left, jobOf(j, nil).Status})
}
