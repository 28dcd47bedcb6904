package access_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// linesOf returns the log lines with this message, from the message on.
func linesOf(r *apitest.Rig, level, msg string) (lines []string) {
	for line := range strings.Lines(r.Log.String()) {
		if _, rest, ok := strings.Cut(line, "level="+level+` msg="`+msg+`" `); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

// Every call that acts on filters has one line in the log, whatever its outcome.
func TestAdminActionsAreLogged(t *testing.T) {
	for name, opts := range map[string]func(*api.Options){"admin": apitest.WithTokens, "-": func(*api.Options) {}} {
		copies := &apitest.Backup{}
		r := apitest.New(t, opts, func(o *api.Options) { o.Backup = copies })
		const token = "Bearer secret-admin"
		for _, call := range []struct{ method, path, body, want string }{
			{"PUT", "/api/v1/filters/news", `{"kind":"timing","expire":60}`, "action=create filter=news token=%s remote=%s outcome=done status=201"},
			{"PUT", "/api/v1/filters/news", `{"kind":"timing","expire":60}`, "action=create filter=news token=%s remote=%s outcome=unchanged status=200"},
			{"PUT", "/api/v1/filters/news", `{"kind":"timing","expire":61}`, "action=create filter=news token=%s remote=%s outcome=refused status=409 error_code=filter_conflict"},
			{"POST", "/api/v1/filters/uri/writeback", "", "action=writeback filter=uri token=%s remote=%s outcome=done status=200"},
			{"POST", "/api/v1/filters/uri/restore", "", "action=restore filter=uri token=%s remote=%s outcome=failed status=500 error_code=internal"},
			{"DELETE", "/api/v1/filters/news", "", "action=drop filter=news token=%s remote=%s outcome=refused status=400 error_code=confirm_required"},
			{"DELETE", "/api/v1/filters/1000?confirm=news", "", "action=drop filter=news token=%s remote=%s outcome=done status=204"},
			{"DELETE", "/api/v1/filters/" + strings.Repeat("x", 1000), "", "action=drop filter=" + strings.Repeat("x", 64) + " token=%s remote=%s outcome=refused status=404 error_code=unknown_filter"},
		} {
			if strings.HasSuffix(call.path, "restore") {
				copies.Err = errors.New("it fails")
			}
			before := len(linesOf(r, "INFO", "admin action"))
			a := r.Do(call.method, call.path, call.body, "Content-Type", apitest.JSONType, "Authorization", token)
			lines := linesOf(r, "INFO", "admin action")[before:]
			want := regexp.MustCompile("^" + fmt.Sprintf(call.want, name, `127\.0\.0\.1:[0-9]+`) + "$")
			if len(lines) != 1 || !want.MatchString(lines[0]) {
				t.Errorf("%s %.60s answered %d: logged %q, want %s", call.method, call.path, a.Status, lines, want)
			}
		}
		before := len(linesOf(r, "INFO", "admin action"))
		for _, path := range []string{"/api/v1/filters", "/api/v1/filters/uri", "/metrics"} {
			r.Do("GET", path, "", "Authorization", token)
		}
		r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`, "Authorization", token)
		if lines := linesOf(r, "INFO", "admin action")[before:]; len(lines) > 0 {
			t.Errorf("calls that only look or filter are logged: %q", lines)
		}
	}
}

// A client that waits for another daemon's writeback retries once a second: the log has a line when
// that begins, and one when it ends.
func TestAWaitIsLoggedOnce(t *testing.T) {
	copies := &apitest.Backup{}
	r := apitest.New(t, apitest.WithTokens, func(o *api.Options) { o.Backup = copies })
	ask := func(filter string, err error) {
		copies.Err = err
		r.Do("POST", "/api/v1/filters/"+filter+"/writeback", "", "Authorization", "Bearer secret-admin")
	}
	held := &archive.LeaseError{Filter: "uri", Owner: "host-7:42", Until: time.Now()}
	for range 30 {
		ask("uri", held)
	}
	ask("uri", nil)
	ask("uri", nil)
	lines := linesOf(r, "INFO", "admin action")
	if len(lines) != 3 || !strings.Contains(lines[0], "error_code=lease_held") || !strings.Contains(lines[1], "outcome=done status=200 refused_before=30") ||
		strings.Contains(lines[2], "refused_before") {
		t.Errorf("got %d lines: %q", len(lines), lines)
	}
}

// A refused token or scope has a line with its name or -, and never the token.
func TestRefusalsAreLogged(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	for _, call := range []struct{ method, path, body, header, want string }{
		{"GET", "/api/v1/filters", "", "", `reason="no token" token=- scope=read remote=%s method=GET path=/api/v1/filters`},
		{"GET", "/api/v1/filters", "", "Basic eDp5", `reason="no bearer token" token=- scope=read remote=%s method=GET path=/api/v1/filters`},
		{"POST", "/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"],"access_token":"wrong-token"}`, "", `reason="unknown token" token=- scope=filter remote=%s method=POST path=/api/v1/filter`},
		{"GET", "/api/v1/filters", "", "Bearer wrong-token", `reason="unknown token" token=- scope=read remote=%s method=GET path=/api/v1/filters`},
		{"DELETE", "/api/v1/filters/uri?confirm=uri", "", "Bearer secret-filter", `reason="scope lacks" token=filter scope=admin remote=%s method=DELETE path=/api/v1/filters/{name}`},
	} {
		before := len(linesOf(r, "WARN", "call refused"))
		header := []string{"Content-Type", apitest.JSONType}
		if call.header != "" {
			header = append(header, "Authorization", call.header)
		}
		a := r.Do(call.method, call.path, call.body, header...)
		lines := linesOf(r, "WARN", "call refused")[before:]
		want := regexp.MustCompile("^" + fmt.Sprintf(call.want, `127\.0\.0\.1:[0-9]+`) + "$")
		if len(lines) != 1 || !want.MatchString(lines[0]) {
			t.Errorf("%s %s answered %d: logged %q, want %s", call.method, call.path, a.Status, lines, want)
		}
	}
	if log := r.Log.String(); strings.Contains(log, "wrong-token") || strings.Contains(log, "secret-") {
		t.Error("a token is in the log")
	}
	if lines := linesOf(r, "INFO", "admin action"); len(lines) > 0 {
		t.Errorf("who is refused acts on nothing: %q", lines)
	}
}

// A flood of wrong tokens is told to stop and does not fill the log, and other callers at its
// address are still served.
func TestAFloodOfWrongTokens(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	const flood = 1000
	begin := time.Now()
	told := map[int]int{}
	for range flood {
		told[r.Do("GET", "/api/v1/filters", "", "Authorization", "Bearer wrong").Status]++
		if a := r.Do("GET", "/api/v1/filters", "", "Authorization", "Bearer secret-read"); a.Status != 200 {
			t.Fatalf("a correct token beside them: %d %s", a.Status, a.Body)
		}
	}
	took := time.Since(begin)
	if most := access.RefusedBurst + int(took/access.RefusedEvery) + 1; told[401] < access.RefusedBurst || told[401] > most || told[401]+told[429] != flood {
		t.Errorf("answers: %v, want %d to %d with 401 and all others with 429", told, access.RefusedBurst, most)
	}
	if n, most := len(linesOf(r, "WARN", "call refused")), access.LoggedBurst+int(took/access.LoggedEvery)+1; n < access.LoggedBurst || n > most {
		t.Errorf("%d lines, want %d to %d", n, access.LoggedBurst, most)
	}
}

// If the settings say so, answers that show the filters require a token.
func TestProtectedMetrics(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens, func(o *api.Options) { o.ProtectMetrics = true })
	for _, path := range []string{"/metrics", "/readyz?verbose"} {
		for header, want := range map[string]int{"": 401, "Bearer x": 401, "Bearer secret-read": 200, "Bearer secret-filter": 200} {
			var with []string
			if header != "" {
				with = []string{"Authorization", header}
			}
			if a := r.Do("GET", path, "", with...); a.Status != want {
				t.Errorf("GET %s with %q: %d, want %d", path, header, a.Status, want)
			}
		}
	}
	for _, path := range []string{"/", "/livez", "/readyz", "/openapi.yaml"} {
		if a := r.Do("GET", path, ""); a.Status != 200 {
			t.Errorf("GET %s: %d", path, a.Status)
		}
	}
}
