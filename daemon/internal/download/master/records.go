package master

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// lines answers a query for the records of a job with NDJSON, one line for each that list passes to its callback.
func lines[T, J any](m *Master, w http.ResponseWriter, r *http.Request, list func(context.Context, download.Query, func(T) error) error, form func(T) J) error {
	q, err := m.wanted(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := list(r.Context(), q, func(one T) error { return enc.Encode(form(one)) }); err != nil {
		return err
	}
	return errors.Join(out.Flush(), http.NewResponseController(w).Flush())
}

func (m *Master) tasks(w http.ResponseWriter, r *http.Request) error {
	return lines(m, w, r, m.Store.ListTasks, taskOf)
}

func (m *Master) logs(w http.ResponseWriter, r *http.Request) error {
	return lines(m, w, r, m.Store.ListLogs, logOf)
}

func (m *Master) data(w http.ResponseWriter, r *http.Request) error {
	return lines(m, w, r, m.Store.ListData, dataOf)
}

// wholeBody is how many bytes of a body are read before the answer begins.
const wholeBody = 1 << 20

// body answers with what was downloaded, as octets: a browser must not render somebody else's
// page under the address of this program.
func (m *Master) body(w http.ResponseWriter, r *http.Request) error {
	q, err := m.wanted(r)
	if err != nil {
		return err
	}
	q.Task, q.Limit = r.PathValue("task"), 1
	found := false
	if err := m.Store.ListData(r.Context(), q, func(download.Data) error { found = true; return nil }); err != nil {
		return err
	}
	if !found {
		return download.ErrNoData
	}
	body, err := m.Store.Body(r.Context(), q.Task)
	if err != nil {
		return err
	}
	defer body.Close()
	// Damage is found at the end. Up to this size the answer can say so; a longer one breaks off, as it has no Content-Length.
	start, err := io.ReadAll(io.LimitReader(body, wholeBody))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.WriteHeader(http.StatusOK)
	_, err = io.Copy(w, io.MultiReader(bytes.NewReader(start), body))
	return err
}

// jobMemory is how many times JobBytes all jobs may take in memory that are read at a time. A few bytes of a text can
// be a part of its own that takes many times as much, so that bytes alone are no bound.
const jobMemory = 16

// minReading is enough for a piece of each body of a thousand connections.
const minReading = 64 << 20

// readingBytes is what all jobs may take in memory that are read at a time.
func readingBytes(jobBytes int64) int64 { return max(jobMemory*jobBytes, minReading) }

// piece is in which steps memory is taken while a body comes.
const piece = 64 << 10

// taken is memory that a call has taken.
type taken struct {
	m     *Master
	bytes int64
}

func (t *taken) take(n int64) error {
	if !t.m.reading.Take(n) {
		return &problemdetail.Error{Code: problemdetail.Overloaded, Detail: "the jobs that are being read take all memory that there is for them: try again", Header: [2]string{"Retry-After", "1"}}
	}
	t.bytes += n
	return nil
}

func (t *taken) giveBack() { t.m.reading.Give(t.bytes) }

// body reads a body whose bytes, and what reading them as a job needs, are taken from the memory for all jobs.
func (t *taken) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	from := http.MaxBytesReader(w, t.m.inTime(w, r.Body), t.m.JobBytes)
	var text bytes.Buffer
	for {
		if err := t.take(piece); err != nil {
			return nil, err
		}
		switch _, err := io.CopyN(&text, from, piece); {
		case err == io.EOF:
			return text.Bytes(), t.parsing(text.Bytes())
		case err != nil:
			return nil, bodyError(err, t.m.JobBytes)
		}
	}
}

// parsing takes what reading a job needs.
func (t *taken) parsing(text []byte) error {
	cost, parts := jobfile.Cost(text)
	if limit := readingBytes(t.m.JobBytes); t.bytes+cost > limit {
		fit := float64(parts) * float64(limit) / float64(t.bytes+cost)
		return &problemdetail.Error{Code: problemdetail.BodyTooLarge, Detail: fmt.Sprintf("its %d keys, values and items of lists would take about %d bytes of memory while they are read, and all jobs together may take %d (16 times limits.job_bytes, and at least 64 MiB): "+
			"about %.0f such parts fit; split the list of URIs: send the job with a part of it, or none, and the others to POST /api/v1/jobs/NAME/uris, one a line, as many as you like", parts, cost, limit, fit)}
	}
	return t.take(cost)
}
