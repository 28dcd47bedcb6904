package uridownloader

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
)

// answers is a master that is asked for one job.
type answers struct {
	t   *testing.T
	say program.Answer
}

func (a answers) Host() string { return "down1" }

func (a answers) Call(_ context.Context, method, path, body string) (program.Answer, error) {
	if method != http.MethodGet || !strings.HasPrefix(path, "/api/v1/jobs/toolkit-probe-") || body != "" {
		a.t.Errorf("unexpected call: %s %s %s", method, path, body)
	}
	return a.say, nil
}

func TestWhatAMasterIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say  program.Answer
		want string // of the error; "": none
	}{
		"it looks into its store": {program.Answer{Status: 404, Body: `{"error_code":"unknown_job","detail":"x"}`}, ""},
		"its store is away":       {program.Answer{Status: 503, Body: `{"error_code":"store_unavailable","detail":"disk"}`}, "503 store_unavailable: disk"},
		"it wants another token":  {program.Answer{Status: 401, Body: `{"error_code":"unauthorized","detail":"no token"}`}, "401 unauthorized: no token"},
		"it is something else":    {program.Answer{Status: 404, Body: "404 page not found"}, "404 Not Found: 404 page not found"},
		"it takes all for jobs":   {program.Answer{Status: 200, Body: `{}`}, "200 OK: {}"},
	} {
		err := askMaster(t.Context(), answers{t, c.say})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	p := Program()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	s, err := p.Parse("x.yaml", []byte("listen: 0.0.0.0:8001\ntls: {cert_file: /c, key_file: /k}\nauth: {tokens_file: /t}\ndata_dir: /srv/d\nfilter: {url: \"http://127.0.0.1:8000\", token_file: /f}\nredis: {password_file: /r}\n"))
	if err != nil || s.Validate() != nil {
		t.Fatal(err, s.Validate())
	}
	if s.Listen != "0.0.0.0:8001" || s.URL != "https://127.0.0.1:8001" || s.TokensFile != "/t" || s.DataDir != "/srv/d" || strings.Join(s.Reread, " ") != "/c /k" || strings.Join(strings.Fields(strings.Join(s.AtStart, " ")), " ") != "/r /f" {
		t.Errorf("got %+v", s)
	}
	if _, err := p.Parse("x.yaml", []byte("\nlissten: x\n")); err == nil || !strings.Contains(err.Error(), "x.yaml:2: lissten: unknown key; did you mean listen?") {
		t.Errorf("an unknown key: %v", err)
	}
	if s, err = p.Parse("x.yaml", []byte("listen: 0.0.0.0:8001\n")); err != nil || s.Validate() == nil {
		t.Errorf("open to everybody: %v, %v", err, s.Validate())
	}
}

// asked is a host that notes what it is to run.
type asked struct {
	host.Host
	script string
}

func (h *asked) Run(_ context.Context, c host.Command) (host.Output, error) {
	h.script = c.Script
	return host.Output{Stdout: "HTTP/1.0 200 OK\r\n"}, nil
}

// A worker on a host that opens no tunnels is asked in the way that it speaks.
func TestWorkerIsAskedOnItsHost(t *testing.T) {
	t.Parallel()
	p, err := Program().For([]string{RoleWorker})
	if err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"worker: {listen: 0.0.0.0:8004}\n":                                    "/dev/tcp/127.0.0.1/8004",
		"worker: {listen: '[::]:8004'}\ntls: {cert_file: /c, key_file: /k}\n": "openssl s_client -quiet -connect [::1]:8004",
	} {
		s, err := p.Parse("x.yaml", []byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		h := &asked{}
		if err := s.AskOnHost(t.Context(), h, "", ""); err != nil || !strings.Contains(h.script, want) {
			t.Errorf("%s: %v, it ran %s", settings, err, h.script)
		}
	}
}

// What the settings require of the system depends on what the host runs.
func TestPackages(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string][3]string{
		"{}":                        {"", "", ""},
		"browser: {required: true}": {"chromium-headless-shell", "", "chromium-headless-shell"},
		"browser: {required: true, path: /opt/shell}": {"", "", ""},
		"script: {python: /usr/bin/python3}":          {"python3", "python3", "python3"},
		"script: {python: /opt/python/bin/python3}":   {"", "", ""},
	} {
		for i, role := range []string{RoleDownloader, RoleMaster, RoleWorker} {
			p, err := Program().For([]string{role})
			if err != nil {
				t.Fatal(err)
			}
			if s, err := p.Parse("x.yaml", []byte(settings)); err != nil || strings.Join(s.Packages, " ") != want[i] {
				t.Errorf("%s, %s: %v, %v, want %q", settings, role, s.Packages, err, want[i])
			}
		}
	}
}
