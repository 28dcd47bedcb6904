package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/ptytest"
)

// Job code, pages and servers write what they like into reasons, URIs, types and bodies. A terminal shows it and does
// not obey it, whichever command prints it; and neither does one behind a pager.
func TestTerminalDoesNotObeyWhatOthersWrote(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[2J\x1b]0;owned\x07\rdone\u009b31m\u202e"
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	master := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/data/1"):
			_, _ = fmt.Fprint(w, evil)
		case strings.Contains(r.URL.Path, "/jobs/gone"):
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(422)
			_, _ = fmt.Fprintf(w, `{"status":422,"title":%s,"error_code":"invalid_job","detail":%s,"known":[%s]}`, text, text, text)
		case strings.HasSuffix(r.URL.Path, "/activity"):
			_, _ = fmt.Fprintf(w, `{"time":"2026-11-26T00:00:00Z","dispatcher":%s,"workers":[{"name":%s}],"errors":[{"job":%s,"reason":%s,"attempts":1}],"jobs":[{"name":%s,"status":%s}]}`, text, text, text, text, text, text)
		case strings.HasSuffix(r.URL.Path, "/retry"):
			_, _ = fmt.Fprintf(w, `{"retried":0,"left":{%s:1},"status":%s}`, text, text)
		case strings.HasSuffix(r.URL.Path, "/jobs/news"):
			_, _ = fmt.Fprintf(w, `{"name":%s,"setting":{"delay":"1s"}}`, text)
		case strings.HasSuffix(r.URL.Path, "/jobs"):
			_, _ = fmt.Fprintf(w, `{"jobs":[{"name":%s}]}`, text)
		default:
			_, _ = fmt.Fprintf(w, `{"state":"failed","task":%s,"uri":%s,"added":%s,"status":200,"content_type":%s,"failed_reason":%s}`+"\n", text, text, text, text, text)
		}
	}))
	t.Cleanup(master.Close)
	for _, command := range []string{
		"tasks news", "logs news", "data news", "tasks news --json", "logs news --json", "data body news 1", "job list", "job retry news", "job show news", "job show news --json", "tasks gone", "job show gone", "top --once", "top --once --json",
	} {
		args := append(strings.Fields(command), "--server", master.URL)
		out, shown := ptytest.Open(t)
		errOut, told := ptytest.Open(t)
		run(context.Background(), args, strings.NewReader(""), out, errOut)
		got := shown() + told()
		if len(got) < 10 || strings.ContainsAny(strings.ReplaceAll(got, "\r\n", "\n"), "\x1b\x07\r\u009b\u202e") {
			t.Errorf("%s: %q", command, got)
		}
		if strings.HasPrefix(command, "data body") || strings.Contains(command, "--json") || strings.HasPrefix(command, "job show") {
			continue
		}
		var pipe, errors strings.Builder
		run(context.Background(), args, strings.NewReader(""), &pipe, &errors)
		if got := pipe.String() + errors.String(); strings.ContainsAny(got, "\x1b\x07\r\u009b\u202e") {
			t.Errorf("%s to a pipe: %q", command, got)
		}
	}
	var body, errors strings.Builder
	if run(context.Background(), []string{"data", "body", "news", "1", "--server", master.URL}, strings.NewReader(""), &body, &errors); body.String() != evil {
		t.Errorf("a body that is not printed to a terminal: %q", body.String())
	}
}
