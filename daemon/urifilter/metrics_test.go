//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// scrape reads the metrics as Prometheus does.
func scrape(p *processtest.Process) map[string]*dto.MetricFamily {
	p.T.Helper()
	status, text, err := p.Get("/metrics")
	if err != nil || status != 200 {
		p.T.Fatalf("/metrics: %d, %v", status, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		p.T.Fatal(err)
	}
	return families
}

// gauge is the value of a family's only series, or of the series of one filter.
func gauge(family *dto.MetricFamily, filter string) float64 {
	for _, m := range family.GetMetric() {
		if filter == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == filter {
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

// Every metric, and every label in braces, that the manuals name is in the answers of daemons:
// an alert on any other name would never fire.
func TestMetricsOfTheManualsExist(t *testing.T) {
	t.Parallel()
	mongo, redis := mongotest.New(t, mongotest.Options{}), redistest.Start(t)
	dir := t.TempDir()
	p := processtest.Start(t, dir, processtest.WithArchive(mongo.URI()))
	p.MustPost("/api/v1/filter", processtest.List(t, "a", "b"), 200)
	processtest.MustCommand(t, dir, []string{"URIFILTER_URL=http://" + p.Addr}, "bitmap", "update")
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The other filter is damaged, so that there is one in quarantine.
	if err := os.Truncate(filepath.Join(dir, "filters", "2-ip", "bitmap"), 100); err != nil {
		t.Fatal(err)
	}
	p = processtest.Start(t, dir, processtest.WithArchive(mongo.URI()))
	p.MustPost("/api/v1/filter", processtest.List(t, "c"), 200)
	p.MustPost("/api/v1/filter", `{"filter":"nope","items":[]}`, 404)
	p.MustPost("/api/v1/filters/uri/writeback", "", 200)
	onRedis := processtest.Start(t, t.TempDir(), append(append(processtest.OnRedis(redis.Addr), "URIFILTER_REDIS_MIRROR_BYTES=4MiB", "URIFILTER_RESP_LISTEN=127.0.0.1:0"), processtest.OnMySQL(t, mysqltest.Start(t))...))

	if code, _, errOut := cli(t, nil, "", "filters", "create", "news", "--kind", "timing", "--server", p.Addr); code != 0 {
		t.Fatal(errOut)
	}

	known := scrape(p)
	if got := gauge(known["urifilter_archive_connected"], ""); got != 1 {
		t.Errorf("archive connected: %v, want 1", got)
	}
	if got := gauge(known["urifilter_journal_bytes"], "uri"); got < 1<<20 {
		t.Errorf("bytes of the journal: %v, want those of its first segment", got)
	}
	if h := known["urifilter_journal_fsync_duration_seconds"].GetMetric(); len(h) != 1 || h[0].GetHistogram().GetSampleCount() == 0 {
		t.Errorf("fsync: %v, want the one of the batch", h)
	}
	for name, family := range scrape(onRedis) {
		if known[name] == nil {
			known[name] = family
		}
	}
	if got := gauge(known["urifilter_store_connected"], ""); got != 1 {
		t.Errorf("store connected: %v, want 1", got)
	}
	redis.Kill()
	testserver.Await(t, "the store told as gone", func() bool { return gauge(scrape(onRedis)["urifilter_store_connected"], "") == 0 })
	redis.Run()
	testserver.Await(t, "the store told as there again", func() bool { return gauge(scrape(onRedis)["urifilter_store_connected"], "") == 1 })
	mongo.Kill()
	testserver.Await(t, "the archive told as gone", func() bool { return gauge(scrape(p)["urifilter_archive_connected"], "") == 0 })
	mongo.Restart()
	testserver.Await(t, "the archive told as there again", func() bool { return gauge(scrape(p)["urifilter_archive_connected"], "") == 1 })

	manuals, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, manual := range append(manuals, "../../README.md") {
		text, err := os.ReadFile(manual)
		if err != nil {
			t.Fatal(err)
		}
		for name, labels := range metricsIn(string(text)) {
			seen++
			family := known[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, ok := strings.CutSuffix(name, suffix); ok && family == nil {
					family = known[base]
				}
			}
			if family == nil {
				t.Errorf("%s names %s, which no daemon has", filepath.Base(manual), name)
				continue
			}
			for _, label := range labels {
				if !hasLabel(family, label) {
					t.Errorf("%s names %s{%s}, which has no such label", filepath.Base(manual), name, label)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("the manuals name %d metrics, want 10 or more: have they another form?", seen)
	}
}

var (
	metricName = regexp.MustCompile(`\b(urifilter_[a-z_]+)(?:\{([^}]*)\})?`)
	labelName  = regexp.MustCompile(`([a-z_]+)(?:[=!~"]|\s*(?:,|$))`)
	// notMetrics are names of other things: targets under their old names, and how Scrapy says
	// that a crawl ended.
	notMetrics = regexp.MustCompile(`^urifilter_(get|start|stop|restart|away|refused|setting_remote)$`)
)

// metricsIn finds the metrics in a text, each with the labels named for it.
func metricsIn(text string) map[string][]string {
	found := map[string][]string{}
	for _, m := range metricName.FindAllStringSubmatch(text, -1) {
		if notMetrics.MatchString(m[1]) {
			continue
		}
		found[m[1]] = append(found[m[1]], labelsIn(m[2])...)
	}
	return found
}

func labelsIn(braces string) []string {
	var names []string
	for _, part := range strings.Split(braces, ",") {
		if m := labelName.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

func hasLabel(family *dto.MetricFamily, name string) bool {
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				return true
			}
		}
	}
	return false
}
