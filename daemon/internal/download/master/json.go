package master

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// jobJSON is a job as callers see it. Times are RFC 3339, durations are text such as 30s.
type jobJSON struct {
	Name     string         `json:"name"`
	Status   string         `json:"status"` // on or off
	Priority int            `json:"priority"`
	Filter   string         `json:"filter,omitempty"`
	Version  int            `json:"version,omitempty"`
	Setting  settingJSON    `json:"setting"`
	Tasks    map[string]int `json:"tasks,omitempty"` // by state
	// Blocked says why tasks wait although there are workers.
	Blocked  []string      `json:"blocked,omitempty"`
	Code     *codeJSON     `json:"code,omitempty"`
	Generate *generateJSON `json:"generate,omitempty"`
	Parse    *parseJSON    `json:"parse,omitempty"`
	Added    *time.Time    `json:"added,omitempty"`
	Changed  *time.Time    `json:"changed,omitempty"`
}

// codeJSON describes the code of a job. Its text is not shown, because it may hold secrets.
type codeJSON struct {
	File     string `json:"file"`
	Language string `json:"language"`
	SHA256   string `json:"sha256"`
	Size     int    `json:"size"` // bytes
}

func codeOf(c download.Code) *codeJSON {
	if c == (download.Code{}) {
		return nil
	}
	return &codeJSON{c.File, c.Language, c.SHA256(), len(c.Text)}
}

// generateJSON and parseJSON describe the two other scripts.
type generateJSON struct {
	Code   *codeJSON `json:"code"`
	Every  string    `json:"every,omitempty"`
	Filter string    `json:"filter,omitempty"`
	Host   string    `json:"host,omitempty"`
}

type parseJSON struct {
	Code   *codeJSON `json:"code"`
	Filter string    `json:"filter,omitempty"`
}

// settingJSON has no cookie, headers or proxies, because they may hold secrets. It only gives their number.
type settingJSON struct {
	Dispatch    int    `json:"dispatch"`
	MaxAttempts int    `json:"max_download_times"`
	Timeout     string `json:"timeout"`
	Engine      string `json:"download_engine"`
	Lane        string `json:"prior"`
	Delay       string `json:"delay"`
	Concurrency int    `json:"concurrency"`
	Robots      bool   `json:"robots"`
	MaxBytes    int64  `json:"max_bytes"`
	Proxies     int    `json:"proxies,omitempty"`
	Headers     int    `json:"headers,omitempty"`
	Cookie      bool   `json:"cookie,omitempty"`
	KeepCookies bool   `json:"keep_cookies"`
}

func jobOf(j download.Job, counts map[download.State]int) jobJSON {
	s := j.Setting
	out := jobJSON{
		Name: j.Name, Status: "off", Priority: j.Priority, Filter: j.Filter, Version: j.Version,
		Setting: settingJSON{
			Dispatch: s.Dispatch, MaxAttempts: s.MaxAttempts, Timeout: s.Timeout.String(), Engine: s.Engine, Lane: string(s.Lane),
			Delay: s.Delay.String(), Concurrency: s.Concurrency, Robots: s.Robots, MaxBytes: s.MaxBytes,
			Proxies: len(s.Proxies), Headers: len(s.Headers), Cookie: s.Cookie != "", KeepCookies: s.KeepCookies,
		},
	}
	if j.On {
		out.Status = "on"
	}
	out.Code = codeOf(j.Code)
	if g := s.Generate; g.Code.Text != "" {
		out.Generate = &generateJSON{Code: codeOf(g.Code), Filter: g.Filter, Host: g.Host}
		if g.Every > 0 {
			out.Generate.Every = g.Every.String()
		}
	}
	if s.Parse.Code.Text != "" {
		out.Parse = &parseJSON{Code: codeOf(s.Parse.Code), Filter: s.Parse.Filter}
	}
	if counts != nil {
		out.Tasks = map[string]int{}
		for state, n := range counts {
			out.Tasks[string(state)] = n
		}
	}
	if !j.Added.IsZero() {
		added, changed := j.Added.UTC(), j.Changed.UTC()
		out.Added, out.Changed = &added, &changed
	}
	return out
}

type taskJSON struct {
	ID        string     `json:"id"`
	URI       string     `json:"uri"`
	State     string     `json:"state"`
	Attempts  int        `json:"attempts"`
	Abandoned int        `json:"abandoned,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	Owner     string     `json:"owner,omitempty"`
	Reason    string     `json:"failed_reason,omitempty"`
	Added     time.Time  `json:"added"`
}

func taskOf(t download.Task) taskJSON {
	return taskJSON{
		ID: t.ID, URI: uris.Redact(t.URI), State: string(t.State), Attempts: t.Attempts, Abandoned: t.Abandoned, NotBefore: given(t.NotBefore), Until: given(t.Until),
		Owner: t.Owner, Reason: uris.Redact(t.Reason), Added: t.Added.UTC(),
	}
}

type logJSON struct {
	Task     string    `json:"task"`
	URI      string    `json:"uri"`
	Attempt  int       `json:"attempt"` // 0: of an abandoned lease
	Version  int       `json:"version"`
	Status   int       `json:"status,omitempty"`
	Reason   string    `json:"failed_reason,omitempty"`
	HostName string    `json:"host_name"`
	Spent    int64     `json:"spend_time_us"`
	Added    time.Time `json:"added"`
}

func logOf(l download.Log) logJSON {
	return logJSON{
		Task: l.Task, URI: uris.Redact(l.TaskURI), Attempt: l.Number, Version: l.Version, Status: l.Status, Reason: uris.Redact(l.Reason),
		HostName: l.HostName, Spent: l.Spent.Microseconds(), Added: l.Added.UTC(),
	}
}

type dataJSON struct {
	Task        string          `json:"task"`
	URI         string          `json:"uri"`
	FinalURI    string          `json:"final_uri"`
	Version     int             `json:"version"`
	Status      int             `json:"status"`
	ContentType string          `json:"content_type,omitempty"`
	Encoding    string          `json:"encoding,omitempty"`
	Size        int64           `json:"size"`
	SHA256      string          `json:"sha256,omitempty"`
	Header      http.Header     `json:"headers,omitempty"`
	Records     json.RawMessage `json:"json_data,omitempty"`
	HostName    string          `json:"host_name"`
	Added       time.Time       `json:"added"`
}

func dataOf(d download.Data) dataJSON {
	out := dataJSON{
		Task: d.Task, URI: uris.Redact(d.TaskURI), FinalURI: uris.Redact(d.URI), Version: d.Version, Status: d.Status, ContentType: d.ContentType, Encoding: d.Encoding,
		Size: d.Size, SHA256: d.SHA256, Header: shownHeader(d.Header), HostName: d.HostName, Added: d.Added.UTC(),
	}
	out.Records = listOf(d.Records)
	return out
}

// shownHeader is a header without what would let others log in.
func shownHeader(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		for _, value := range values {
			out[name] = append(out[name], uris.Redact(value))
		}
	}
	return out
}

// listOf makes a JSON list of values that are one per line; nil for none.
func listOf(lines []byte) json.RawMessage {
	list := bytes.ReplaceAll(bytes.TrimSpace(lines), []byte("\n"), []byte(","))
	if len(list) == 0 {
		return nil
	}
	if list = append(append([]byte{'['}, list...), ']'); !json.Valid(list) {
		return nil
	}
	return list
}

func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func answer(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(append(text, '\n'))
	return err
}
