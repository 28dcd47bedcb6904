//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestPing(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	t.Setenv("URIFILTER_URL", p.Addr)
	code, out, errOut := cli(t, nil, "", "ping")
	if code != 0 || !strings.HasPrefix(out, "http://"+p.Addr+": ready (urifilter ") || errOut != "" {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	ping := func() (code int, result pingResult) {
		t.Helper()
		code, out, errOut := cli(t, nil, "", "ping", "--json")
		if err := json.Unmarshal([]byte(out), &result); err != nil || errOut != "" {
			t.Fatalf("%v: %q, %q", err, out, errOut)
		}
		return code, result
	}
	if code, got := ping(); code != 0 || !got.Alive || !got.Ready || got.Version == "" || got.Seconds <= 0 || got.URL != "http://"+p.Addr {
		t.Errorf("got %d, %+v", code, got)
	}
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, got := ping(); code != 1 || got.Alive || got.Ready || got.Detail == "" {
		t.Errorf("no daemon: %d, %+v", code, got)
	}
	if code, out, errOut := cli(t, nil, "", "ping"); code != 1 || out != "" || !strings.Contains(errOut, "is the daemon running?") {
		t.Errorf("no daemon: %d, %q, %q", code, out, errOut)
	}
}

func TestPingOfOneThatIsNotReady(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Urifilter-Version", "v9")
		if r.URL.Path == "/readyz" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(503)
			w.Write([]byte(`{"error_code":"not_ready","status":503,"detail":"filter uri: waits"}`))
		}
	}))
	defer server.Close()
	code, out, errOut := cli(t, nil, "", "ping", "-s", server.URL)
	if code != exitNotReady || !strings.HasPrefix(out, server.URL+": not ready: filter uri: waits (urifilter v9, ") || errOut != "" {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
}

// readStats reads the lines that stats --json prints.
func readStats(t *testing.T, out string) (all []stats) {
	t.Helper()
	for line := range strings.Lines(out) {
		var s stats
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		all = append(all, s)
	}
	return all
}

func TestStats(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	t.Setenv("URIFILTER_URL", p.Addr)
	p.MustPost("/api/v1/filter", processtest.List(t, "a", "b", "a"), 200)
	p.MustPost("/api/v1/filter", `{"filter":"nope","items":[]}`, 404)
	code, out, errOut := cli(t, nil, "", "stats", "--once", "--interval", "0", "--json")
	got := readStats(t, out)
	if code != 0 || errOut != "" || len(got) != 1 || got[0].Requests != 2 || got[0].Errors != 1 || got[0].ErrorsBy["unknown_filter"] != 1 || !got[0].Ready || got[0].Version == "" ||
		got[0].Rates != nil || len(got[0].Filters) < 2 {
		t.Fatalf("got %d, %q, %q", code, out, errOut)
	}
	for _, f := range got[0].Filters {
		if f.Name == "uri" && (f.Items != 2 || f.Capacity == 0 || f.Bytes == 0 || f.Kind != "bloom" || f.Rates != nil) {
			t.Errorf("got %+v", f)
		}
	}
	code, out, errOut = cli(t, nil, "", "stats", "--once", "--interval", "1ms")
	if code != 0 || errOut != "" || !strings.Contains(out, "requests 2  errors/s 0  errors 1  unknown_filter 1\n") || !strings.Contains(out, "FILTER  ") || !strings.Contains(out, "uri ") {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	if code, _, errOut = cli(t, nil, "", "stats", "--interval", "0"); code != 2 || !strings.Contains(errOut, "--interval") {
		t.Errorf("no interval: %d, %q", code, errOut)
	}

	// It runs until it is stopped, even while the daemon is down.
	ctx, stop := context.WithCancelCause(t.Context())
	show := &testserver.Log{}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"stats", "--interval", "10ms"}, nil, show, show) }()
	testserver.Await(t, "two tables", func() bool { return strings.Count(show.String(), "FILTER  ") >= 2 })
	if err := p.End(syscall.SIGKILL); err == nil {
		t.Error("killed, and no error")
	}
	testserver.Await(t, "a word of no answer", func() bool { return strings.Contains(show.String(), "\nno answer: ") })
	stop(command.Signaled{Signal: syscall.SIGINT})
	if code := <-ended; code != 130 || strings.Contains(show.String(), "urifilter: ") {
		t.Errorf("exit code %d after Ctrl-C, want 130 and no message\n%s", code, show)
	}
}

func sampleOf(t *testing.T, at time.Time, text string) *sample {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) }))
	defer server.Close()
	daemon, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, err := poll(t.Context(), daemon)
	if err != nil {
		t.Fatal(err)
	}
	s.at = at
	return s
}

func TestRatesOfStats(t *testing.T) {
	metrics := func(start, filtered, fresh, checked, scraped, failed string) string {
		return strings.NewReplacer("START", start, "FILTERED", filtered, "FRESH", fresh, "CHECKED", checked, "SCRAPED", scraped, "FAILED", failed).Replace(`# TYPE process_start_time_seconds gauge
process_start_time_seconds START
# TYPE urifilter_requests_total counter
urifilter_requests_total{path="/api/v1/filter",code="200"} FILTERED
urifilter_requests_total{path="/metrics",code="200"} SCRAPED
# TYPE urifilter_errors_total counter
urifilter_errors_total{path="/api/v1/filter",method="POST",error_code="null_item"} FAILED
# TYPE urifilter_filter_info gauge
urifilter_filter_info{filter="uri",id="1",kind="bloom"} 1
# TYPE urifilter_items_total counter
urifilter_items_total{filter="uri",result="new"} FRESH
urifilter_items_total{filter="uri",result="duplicate"} 100
# TYPE urifilter_checked_items_total counter
urifilter_checked_items_total{filter="uri",result="new"} CHECKED
`)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := sampleOf(t, at, metrics("7", "10", "1000", "50", "5", "3"))
	got := sampleOf(t, at.Add(2*time.Second), metrics("7", "30", "5000", "250", "500", "4")).since(before)
	if got.Rates == nil || *got.Rates != (requestRates{10, 0.5}) || got.Seconds != 2 || *got.Filters[0].Rates != (filterRates{2100, 2000}) {
		t.Errorf("got %+v, %+v", got.Rates, got.Filters[0].Rates)
	}
	var b bytes.Buffer
	if err := got.write(&b); err != nil || !strings.Contains(b.String(), "requests/s 10  in flight 0  requests 30  errors/s 0.5  errors 4  null_item 4\n") || !strings.Contains(b.String(), "2,100  2,000\n") {
		t.Errorf("%v: %s", err, &b)
	}
	if got = sampleOf(t, at.Add(2*time.Second), metrics("9", "3", "5", "2", "5", "0")).since(before); got.Rates != nil || got.Filters[0].Rates != nil {
		t.Errorf("rates over a restart: %+v", got.Rates)
	}
}
