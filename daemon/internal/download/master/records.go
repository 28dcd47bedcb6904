package master

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// lines answers with NDJSON, one line for each value that list passes to its callback.
func lines[T, J any](w http.ResponseWriter, list func(each func(T) error) error, form func(T) J) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := list(func(one T) error { return enc.Encode(form(one)) }); err != nil {
		return err
	}
	return errors.Join(out.Flush(), http.NewResponseController(w).Flush())
}

func (m *Master) tasks(w http.ResponseWriter, r *http.Request) error {
	q, err := m.wanted(r)
	if err != nil {
		return err
	}
	return lines(w, func(each func(download.Task) error) error { return m.Store.ListTasks(r.Context(), q, each) }, taskOf)
}

func (m *Master) logs(w http.ResponseWriter, r *http.Request) error {
	q, err := m.wanted(r)
	if err != nil {
		return err
	}
	return lines(w, func(each func(download.Log) error) error { return m.Store.ListLogs(r.Context(), q, each) }, logOf)
}

func (m *Master) data(w http.ResponseWriter, r *http.Request) error {
	q, err := m.wanted(r)
	if err != nil {
		return err
	}
	return lines(w, func(each func(download.Data) error) error { return m.Store.ListData(r.Context(), q, each) }, dataOf)
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
