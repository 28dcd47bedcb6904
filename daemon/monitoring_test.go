package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"go.yaml.in/yaml/v4"
)

const rulesFile, dashboardFile = "../configs/prometheus/urifilter.rules.yml", "../configs/grafana/urifilter.json"

// alerts returns the alerts of the rules with their expressions.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile(rulesFile)
	if err := errors.Join(err, yaml.Unmarshal(text, &file)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Expr
		}
	}
	return all
}

// panels returns the expressions of the dashboard by where they stand, with values for its variables.
func panels(t *testing.T) map[string]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	text, err := os.ReadFile(dashboardFile)
	if err := errors.Join(err, json.Unmarshal(text, &dashboard)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*").Replace(target.Expr)
		}
	}
	return all
}

// Rules and dashboard name only metrics that the programs have, and each alert is tried.
func TestMonitoringNamesWhatExists(t *testing.T) {
	t.Parallel()
	sources := sourceText(t, ".")
	names := regexp.MustCompile(`\b(?:urifilter|uridownloader)_([a-z_]+)`)
	tried, err := os.ReadFile("../configs/prometheus/urifilter.rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	exprs := panels(t)
	for alert, expr := range alerts(t) {
		exprs[alert] = expr
		if !strings.Contains(string(tried), `alertname="`+alert+`"`) {
			t.Errorf("no test of the rules fires %s", alert)
		}
	}
	if len(exprs) < 40 {
		t.Fatalf("%d expressions: have the files another form?", len(exprs))
	}
	for where, expr := range exprs {
		for _, found := range names.FindAllStringSubmatch(expr, -1) {
			name, short := found[0], found[1]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name, short = strings.TrimSuffix(name, suffix), strings.TrimSuffix(short, suffix)
			}
			if !strings.Contains(sources, `"`+name+`"`) && !strings.Contains(sources, `"`+short+`"`) {
				t.Errorf("%s: no program has a metric %s", where, name)
			}
		}
	}
}

// promtool runs Prometheus's tool for rules.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skipf("%v; on Debian: apt-get install prometheus", err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", args, err, out)
	}
}

// The alerts fire when they should, and the dashboard's expressions can be read.
func TestMonitoringRules(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", "../configs/prometheus/urifilter.rules_test.yml")
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for _, expr := range panels(t) {
		rules = append(rules, rule{fmt.Sprintf("panel:%d", len(rules)), expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// A real Prometheus scrapes both programs and evaluates the rules; what a program on the embedded store can have
// in the dashboard is there.
func TestSystemPrometheus(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skipf("%v; on Debian: apt-get install prometheus", err)
	}
	dir := t.TempDir()
	var scrapes strings.Builder
	var ended []<-chan error
	for _, program := range []string{"urifilter", "uridownloader"} {
		binary := filepath.Join(dir, program)
		if err := testserver.Program(binary, "-trimpath", "./"+program); err != nil {
			t.Fatal(err)
		}
		addr := freePort(t)
		ended = append(ended, running(t, binary, "serve", "--listen", addr, "--data-dir", filepath.Join(dir, program+"-data")))
		fmt.Fprintf(&scrapes, "  - job_name: %s\n    static_configs: [{targets: ['%s']}]\n", program, addr)
	}
	rules, err := filepath.Abs(rulesFile)
	config := fmt.Sprintf("global: {scrape_interval: 200ms, evaluation_interval: 200ms}\nrule_files: [%s]\nscrape_configs:\n%s", rules, &scrapes)
	file := filepath.Join(dir, "prometheus.yml")
	if err := errors.Join(err, os.WriteFile(file, []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	addr := freePort(t)
	ended = append(ended, running(t, "prometheus", "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "tsdb"), "--web.listen-address", addr))
	ask := func(path string) string {
		r, err := http.Get("http://" + addr + path)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return string(text)
	}
	await := func(what string, ok func() (string, bool)) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for {
			for _, program := range ended {
				select {
				case err := <-program:
					t.Fatalf("%s: a program has ended: %v", what, err)
				default:
				}
			}
			last, done := ok()
			if done {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", what, last)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	await("both are scraped", func() (string, bool) {
		text := ask("/api/v1/query?query=count(up==1)")
		return text, strings.Contains(text, `"2"]`)
	})
	await("all rules are evaluated without an error", func() (string, bool) {
		text := ask("/api/v1/rules")
		return text, strings.Count(text, `"health":"ok"`) == len(alerts(t))
	})
	for where, expr := range panels(t) {
		if strings.Contains(expr, "last_writeback") || strings.HasPrefix(where, "Items inside") || strings.HasPrefix(where, "Calls with an error") {
			continue // these come with an archive, with items, and with an error
		}
		await(where, func() (string, bool) {
			text := ask("/api/v1/query?query=" + strings.NewReplacer("+", "%2B", "&", "%26", " ", "%20", "#", "%23").Replace(expr))
			return text, strings.Contains(text, `"value":[`)
		})
	}
}

// running starts a program for the time of a test; what it returns tells of an earlier end.
func running(t *testing.T, program string, args ...string) <-chan error {
	t.Helper()
	cmd := exec.Command(program, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, waited := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(waited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-waited
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%.4000s", program, text)
		}
		_ = log.Close()
	})
	return ended
}

// freePort returns an address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it served nothing
	return l.Addr().String()
}
