package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
)

// Get asks for a path and returns the status and the body.
func (p *Process) Get(path string) (int, string, error) { return p.Send(http.MethodGet, path) }

// Send makes a request without a body.
func (p *Process) Send(method, path string) (int, string, error) {
	return p.call(context.Background(), method, path, http.NoBody)
}

// Post sends a body as curl -d does.
func (p *Process) Post(ctx context.Context, path, body string) (int, string, error) {
	return p.call(ctx, http.MethodPost, path, strings.NewReader(body))
}

// Do makes a request; a body, if there is one, is JSON.
func (p *Process) Do(ctx context.Context, method, path, body string) (int, string, error) {
	if body == "" {
		return p.call(ctx, method, path, http.NoBody)
	}
	return p.call(ctx, method, path, strings.NewReader(body))
}

func (p *Process) call(ctx context.Context, method, path string, body io.Reader) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addr+path, body)
	if err != nil {
		return 0, "", err
	}
	if body != http.NoBody {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// MustPost is Post, and fails unless the answer has this status.
func (p *Process) MustPost(path, body string, wantStatus int) string {
	p.T.Helper()
	status, answer, err := p.Post(context.Background(), path, body)
	if err != nil || status != wantStatus {
		p.T.Fatalf("POST %s %.100s: status %d, %v, want %d: %s", path, body, status, err, wantStatus, answer)
	}
	return answer
}

// List returns the body of a call for the filter 1.
func List(t testing.TB, items ...any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"filter_typeid": 1, "uri_list": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Fresh posts numbered items of the filter uri and returns how many were new.
func (p *Process) Fresh(from, to int) int {
	p.T.Helper()
	items := make([]any, 0, to-from)
	for n := from; n < to; n++ {
		items = append(items, fmt.Sprintf("https://example.com/%d", n))
	}
	var got client.FilterResult[string]
	if err := json.Unmarshal([]byte(p.MustPost("/api/v1/filter", List(p.T, items...), 200)), &got); err != nil {
		p.T.Fatal(err)
	}
	return len(got.URIList)
}

// WantFresh fails unless this many of the numbered items are new.
func (p *Process) WantFresh(from, to, want int) {
	p.T.Helper()
	// This far below its capacity, the filter takes no new item for seen.
	if got := p.Fresh(from, to); got != want {
		p.T.Fatalf("items %d to %d: %d new, want %d\n%s", from, to, got, want, p.Log)
	}
}

// MustContain fails unless a text contains each of some others.
func MustContain(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}
