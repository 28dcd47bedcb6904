package node

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client/clienttest"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// A node with all roles downloads what a job names; after its end the next node finds it all in the folder.
func TestNode(t *testing.T) {
	t.Parallel()
	url, _, _ := site(t)
	cfg := testSettings(t)
	n := open(t, cfg, All())
	if code, text := n.call("POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"a","filter":"uri_download","uris":[%q,%q],"setting":{"delay":"1ms"}}`, url+"/1", url+"/2")); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	n.until("/api/v1/jobs/a", `"done":2`)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	again := open(t, cfg, All())
	again.until("/api/v1/jobs/a", `"done":2`)
}

// A node with all roles needs the data directory to itself; nodes with some roles share it.
func TestDataDirIsInUse(t *testing.T) {
	t.Parallel()
	cfg := testSettings(t)
	n := open(t, cfg, All())
	for roles, hint := range map[Roles]string{
		All():            "one process that serves all roles uses a data directory at a time",
		{Dispatch: true}: "`uridownloader serve` has this data directory, with all roles",
	} {
		if text := refused(t, cfg, roles); !strings.Contains(text, hint) || !strings.Contains(text, cfg.DataDir) {
			t.Errorf("%s: %s", roles, text)
		}
	}
	n.until("/readyz", "ready\n") // the first one was not disturbed
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	open(t, cfg, Roles{Dispatch: true})
	open(t, cfg, Roles{Dispatch: true})
	if text := refused(t, cfg, All()); !strings.Contains(text, "hint: ") {
		t.Error(text)
	}
}

// An impossible setting is refused by name, and the folder is freed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		roles  Roles
		change func(*settings.Config)
		want   []string
	}{
		{"port", All(), func(c *settings.Config) { c.Listen = taken.Addr().String() }, []string{taken.Addr().String(), "address already in use"}},
		{"folder", All(), func(c *settings.Config) { c.DataDir = file }, []string{file, "not a directory"}},
		{"tokens", All(), func(c *settings.Config) { c.Auth.TokensFile = file }, []string{file}},
		{"no tokens", All(), func(c *settings.Config) { c.Auth.TokensFile = file + ".none" }, []string{file + ".none", "no such file"}},
		{"certificate", All(), func(c *settings.Config) { c.TLS.CertFile, c.TLS.KeyFile = file, file }, []string{file}},
		{"a worker alone", Roles{Worker: true}, func(*settings.Config) {}, []string{"filter.url", "a worker that is not the only process", "hint: ", "uridownloader serve"}},
		{"a master alone", Roles{Master: true}, func(*settings.Config) {}, []string{"filter.url", "a master that is not"}},
		{"token of the filter", All(), func(c *settings.Config) { c.Filter.URL, c.Filter.TokenFile = "http://127.0.0.1:1", file+".none" }, []string{"filter.token_file", file + ".none"}},
		{"webhook's token", All(), func(c *settings.Config) {
			c.Report.Webhook, c.Report.WebhookTokenFile = "http://127.0.0.1:1", file+".none"
		}, []string{"report.webhook_token_file", file + ".none"}},
		{"two tokens of the filter", All(), func(c *settings.Config) { c.Filter.URL, c.Filter.TokenFile = "http://127.0.0.1:1", file }, []string{"filter.token_file: " + file + ": want one"}},
		{"two tokens of the webhook", All(), func(c *settings.Config) {
			c.Report.Webhook, c.Report.WebhookTokenFile = "http://127.0.0.1:1", file
		}, []string{"report.webhook_token_file: " + file + ": want one"}},
		{"mail's password", All(), func(c *settings.Config) {
			c.Report.MailServer, c.Report.MailPasswordFile = "127.0.0.1:1", file+".none"
		}, []string{"report.mail_password_file", file + ".none"}},
		{"redis' password", All(), func(c *settings.Config) {
			c.Redis.Addrs, c.Redis.PasswordFile = []string{"127.0.0.1:1"}, file+".none"
		}, []string{"redis.password_file", file + ".none"}},
		{"mongodb's uri", All(), func(c *settings.Config) { c.Store, c.MongoDB.URIFile = StoreMongoDB, file+".none" }, []string{"mongodb.uri_file", file + ".none"}},
		{"browser", All(), func(c *settings.Config) { c.Browser.Required, c.Browser.Path = true, file }, []string{"browser.required: true", file}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := testSettings(t)
			changed := cfg
			test.change(&changed)
			text := refused(t, changed, test.roles)
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s\nwant %s", text, want)
				}
			}
			if strings.Contains(text, "no token") {
				t.Errorf("it tells what is in the file: %s", text)
			}
			if test.name == "browser" { // opened last
				open(t, cfg, All()) // nothing in the folder is held
			}
		})
	}
}

var anyConnections = regexp.MustCompile(`(?m)^uridownloader_connections [1-9]`)

// Each role answers the calls that it should, and together they do what one process does.
func TestRoles(t *testing.T) {
	t.Parallel()
	url, _, _ := site(t)
	cfg := testSettings(t)
	cfg.Filter.URL = clienttest.NewServer(t).URL
	master := open(t, cfg, Roles{Master: true})
	dispatcher := open(t, cfg, Roles{Dispatch: true})
	worker := open(t, cfg, Roles{Worker: true})
	for _, r := range []*running{dispatcher, worker} {
		if code, text := r.call("GET", "/api/v1/jobs", ""); code != http.StatusNotFound {
			t.Errorf("%s answers %d %s", r.node.roles, code, text)
		}
	}
	for _, r := range []*running{master, dispatcher, worker} {
		r.until("/readyz", "ready\n")
		// How many there are is the client's affair: it dials anew while a connection is on its way back to its pool.
		if code, text := r.call("GET", "/metrics", ""); code != 200 || !anyConnections.MatchString(text) {
			t.Errorf("%s: %d %s", r.node.roles, code, text)
		}
	}
	if code, text := master.call("POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"a","filter":"uri_download","uris":[%q],"setting":{"delay":"1ms"}}`, url+"/1")); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	master.until("/api/v1/jobs/a", `"done":1`)
}

// A single round hands out, also beside processes of other roles, but not beside one with all roles.
func TestDispatchOnce(t *testing.T) {
	t.Parallel()
	cfg := testSettings(t)
	cfg.Filter.URL = clienttest.NewServer(t).URL
	master := open(t, cfg, Roles{Master: true})
	if code, text := master.call("POST", "/api/v1/jobs", `{"name":"a","uris":["http://a.example/","http://b.example/"]}`); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	log := slog.New(slog.DiscardHandler)
	if _, err := DispatchOnce(t.Context(), cfg, log); err != nil {
		t.Fatal(err)
	}
	master.until("/api/v1/jobs/a", `"ready":2`)
	if err := master.stop(); err != nil {
		t.Fatal(err)
	}
	open(t, cfg, All())
	if _, err := DispatchOnce(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), "`uridownloader serve` has this data directory") {
		t.Errorf("beside serve: %v", err)
	}
}

// Errors that a node logs go to the service of report.dsn: here, that a job has failed, and why the node ends.
func TestErrorsAreSent(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(service.Close)
	url, _, _ := site(t)
	cfg := testSettings(t)
	cfg.Report.DSN = strings.Replace(service.URL, "://", "://thekey@", 1) + "/7"
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	n := open(t, cfg, All())
	if code, text := n.call("POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"a","uris":[%q],"setting":{"delay":"1ms"}}`, url+"/robots.txt?token=abc")); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	wants := func(text string) {
		t.Helper()
		for {
			select {
			case body := <-bodies:
				if strings.Contains(body, "token=abc") {
					t.Errorf("it got %s", body)
				}
				if strings.Contains(body, text) {
					return
				}
			case <-time.After(patient):
				t.Fatalf("%s did not come within %v\n%s", text, patient, n.log)
			}
		}
	}
	wants(`"job failed: none of its tasks has a result"`)
	if strings.Contains(n.log.String(), "thekey") {
		t.Errorf("the log has the key: %s", n.log)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.Browser.Required, cfg.Browser.Path = true, cfg.DataDir
	for began := time.Now(); ; { // it waits 3 s for the service
		refused(t, cfg, All())
		select {
		case body := <-bodies:
			if strings.Contains(body, `"program ends"`) {
				return
			}
		default:
		}
		if time.Since(began) > patient {
			t.Fatal("the service is not told why the node ends")
		}
	}
}

// A start waits for a command, such as a check, that has the folder of the filter.
func TestStartWaitsForACommand(t *testing.T) {
	t.Parallel()
	cfg := testSettings(t)
	dir := filepath.Join(cfg.DataDir, "filter")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	command, err := disk.AcquireLock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(releaser(func(line string) {
		if strings.Contains(line, "the start waits until that process ends") {
			if err := command.Release(); err != nil {
				t.Error(err)
			}
		}
	}), nil))
	n, err := Open(t.Context(), cfg, All(), log)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

// releaser is called with each line of a log.
type releaser func(line string)

func (r releaser) Write(line []byte) (int, error) {
	r(string(line))
	return len(line), nil
}
