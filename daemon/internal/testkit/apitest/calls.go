package apitest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
)

const (
	JSONType = "application/json"
	TextType = "text/plain"
)

// Answer is an answer that was read completely.
type Answer struct {
	Status  int
	Header  http.Header
	Trailer http.Header
	Body    string
}

// Problem returns the answer as an error.
func (a Answer) Problem(t testing.TB) client.Problem {
	t.Helper()
	var p client.Problem
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
		t.Fatalf("not a problem: %v: %q", err, a.Body)
	}
	return p
}

// Do sends a request; header is name, value, name, value ...
func (r *Rig) Do(method, path, body string, header ...string) Answer {
	r.T.Helper()
	req, err := http.NewRequest(method, r.HTTP.URL+path, strings.NewReader(body))
	if err != nil {
		r.T.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.Send(req, body)
}

// Send sends a request with a complete body.
func (r *Rig) Send(req *http.Request, body string) Answer {
	r.T.Helper()
	resp, err := r.HTTP.Client().Do(req)
	if err != nil {
		r.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.T.Fatal(err)
	}
	a := Answer{resp.StatusCode, resp.Header, resp.Trailer, string(text)}
	r.validate(req, body, a)
	return a
}

// Post sends JSON, unless header has another type.
func (r *Rig) Post(path, body string, header ...string) Answer {
	r.T.Helper()
	if len(header) == 0 {
		header = []string{"Content-Type", "application/json"}
	}
	return r.Do(http.MethodPost, path, body, header...)
}

// Put makes a filter.
func (r *Rig) Put(name, body string) Answer {
	r.T.Helper()
	return r.Do("PUT", "/api/v1/filters/"+name, body, "Content-Type", JSONType)
}

// Info returns the filter shown in an answer.
func Info(t testing.TB, a Answer) client.FilterInfo {
	t.Helper()
	var f client.FilterInfo
	if err := json.Unmarshal([]byte(a.Body), &f); err != nil {
		t.Fatalf("%v: %d %q", err, a.Status, a.Body)
	}
	return f
}

// WantBody fails unless the answer is a 200 with this body.
func WantBody(t *testing.T, a Answer, want string) {
	t.Helper()
	if a.Status != http.StatusOK || a.Body != want {
		t.Errorf("got %d %q, want 200 %q", a.Status, a.Body, want)
	}
}

// Zipped returns text in gzip.
func Zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// List makes a call with a list in JSON.
func List(body string) func(*Rig) Answer {
	return func(r *Rig) Answer { return r.Post("/api/v1/filter", body) }
}

// Lines makes a call with lines of text.
func Lines(query, body string, header ...string) func(*Rig) Answer {
	return func(r *Rig) Answer {
		return r.Post("/api/v1/filter"+query, body, append([]string{"Content-Type", TextType}, header...)...)
	}
}

// Request makes any call.
func Request(method, path, body string, header ...string) func(*Rig) Answer {
	return func(r *Rig) Answer { return r.Do(method, path, body, header...) }
}

// Raw sends bytes over a separate connection and reads one answer.
func Raw(text string) func(*Rig) Answer { return rawThen(text, nil) }

// CutOff is Raw, but the client then closes its sending half. For net/http a client that does so
// after its request has left, and may get no answer.
func CutOff(text string) func(*Rig) Answer {
	return rawThen(text, func(conn net.Conn) error { return conn.(HalfCloser).CloseWrite() })
}

func rawThen(text string, then func(net.Conn) error) func(*Rig) Answer {
	return func(r *Rig) Answer {
		r.T.Helper()
		conn := r.DialAny()
		if _, err := io.WriteString(conn, text); err != nil {
			r.T.Fatal(err)
		}
		if then != nil {
			if err := then(conn); err != nil {
				r.T.Fatal(err)
			}
		}
		req, err := http.NewRequest("POST", r.HTTP.URL+"/api/v1/filter", nil)
		if err != nil {
			r.T.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			r.T.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			r.T.Fatal(err)
		}
		if resp.Close {
			resp.Header.Set("Connection", "close") // ReadResponse has removed it
		}
		a := Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
		r.validate(req, "", a)
		return a
	}
}

// WithTokens makes the daemon require one of the tokens secret-read, secret-filter,
// secret-forget and secret-admin.
func WithTokens(o *api.Options) {
	tokens := map[string][]string{"secret-read": {"read"}, "secret-filter": {"filter"}, "secret-forget": {"forget"}, "secret-admin": {"admin"}}
	o.Authenticate = func(secret string) (string, []string, bool) {
		scopes, ok := tokens[secret]
		return strings.TrimPrefix(secret, "secret-"), scopes, ok
	}
}

// Backup gives preset answers and records its calls.
type Backup struct {
	Err   error
	Asked atomic.Pointer[string]
	Hold  func(context.Context) error
}

func (k *Backup) Writeback(ctx context.Context, filter string, _ archive.Progress) (backup.Copy, error) {
	return k.answer(ctx, "writeback "+filter, 7)
}

func (k *Backup) Restore(ctx context.Context, filter, version string, _ archive.Progress) (backup.Copy, error) {
	return k.answer(ctx, "restore "+filter+" "+version, 0)
}

func (k *Backup) answer(ctx context.Context, what string, uploaded int64) (backup.Copy, error) {
	k.Asked.Store(&what)
	if k.Hold != nil {
		if err := k.Hold(ctx); err != nil {
			return backup.Copy{}, err
		}
	}
	return backup.Copy{Filter: "uri", Version: "v1", Generation: 3, Bytes: 64, Uploaded: uploaded, Items: 2, Took: 1500 * time.Millisecond}, k.Err
}
