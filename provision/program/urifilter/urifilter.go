// Package urifilter describes the filter to the toolkit. Nothing else in the toolkit
// knows this program by its name, except the names of targets.
package urifilter

import (
	"context"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/systemd"
)

// Program returns the filter.
func Program() program.Program {
	return program.Program{
		Program: systemd.Urifilter(), Roles: []string{inventory.RoleFilter}, Section: inventory.SectionFilter, Package: "./daemon/urifilter",
		Parse: parse, Ready: "/readyz", Scopes: []string{"read", "filter", "admin"}, TokenScopes: configs.Scopes(), Caller: "filter",
		Servers: program.Servers{Redis: true, MySQL: true, MongoDB: true, Store: "redis"}, BitMaps: true, Counts: counts,
	}
}

func parse(name string, text []byte) (program.Settings, error) {
	c, err := configs.Parse(name, text)
	if err != nil {
		return program.Settings{}, err
	}
	s := program.Settings{
		Validate: c.Validate, Listen: c.Listen, URL: c.URL(), DataDir: c.DataDir, TokensFile: c.Auth.TokensFile,
		Reread: []string{
			c.TLS.CertFile, c.TLS.KeyFile,
			c.Redis.TLSCAFile, c.Redis.TLSCertFile, c.Redis.TLSKeyFile, c.MySQL.TLSCAFile, c.MySQL.TLSCertFile, c.MySQL.TLSKeyFile, c.MongoDB.TLSCAFile, c.MongoDB.TLSCertFile, c.MongoDB.TLSKeyFile,
		},
		AtStart:  []string{c.Redis.PasswordFile, c.MySQL.PasswordFile},
		Database: c.MongoDB.Database, PlainRedis: c.Store == "redis" && !c.Redis.TLS,
	}
	if c.RESP.Listen != "" {
		s.More = map[string]string{"resp.listen": c.RESP.Listen}
	}
	specs := c.Specs()
	for _, spec := range specs {
		s.BitMaps = append(s.BitMaps, spec.Name)
	}
	filter := plain(specs)
	s.Ask = func(ctx context.Context, d program.Daemon) error { return prove(ctx, d.Host(), overHTTP{d}, filter) }
	s.AskOnHost = func(ctx context.Context, h host.Host, path, token string) error {
		return prove(ctx, h.Name(), onHost{h, path, c.URL(), token}, filter)
	}
	return s, nil
}

// plain returns the first filter of plain items, which a daemon is asked about that makes none for a
// check; "": there is none.
func plain(specs []configs.Filter) string {
	for _, s := range specs {
		if kind, _ := configs.KindOf(s.Kind); !kind.Texts {
			return s.Name
		}
	}
	return ""
}

// counts reads the metrics of a daemon.
func counts(metrics string) (program.Counts, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		return program.Counts{}, err
	}
	// sum adds up the series of a metric that have a label; "": all of them.
	sum := func(metric, name, value string) (total float64) {
		for _, m := range families[metric].GetMetric() {
			if name == "" || label(m, name) == value {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return total
	}
	c := program.Counts{
		Ready: sum("urifilter_ready", "", "") == 1, Began: sum("process_start_time_seconds", "", ""),
		Requests: sum("urifilter_requests_total", "", ""), Errors: sum("urifilter_errors_total", "", ""),
		Items: sum("urifilter_items_total", "", "") + sum("urifilter_checked_items_total", "", ""), New: sum("urifilter_items_total", "result", "new"),
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz"} { // of those who watch it
		c.Requests -= sum("urifilter_requests_total", "path", path)
	}
	for _, m := range families["urifilter_build_info"].GetMetric() {
		c.Version = label(m, "version")
	}
	for _, m := range families["urifilter_filter_info"].GetMetric() {
		name := label(m, "filter")
		c.Filters = append(c.Filters, program.FilterCounts{
			Name: name, Items: sum("urifilter_filter_items_estimate", "filter", name) + sum("urifilter_filter_items", "filter", name),
			Capacity: sum("urifilter_filter_capacity_items", "filter", name), FPR: sum("urifilter_filter_fpr_estimate_ratio", "filter", name),
		})
	}
	return c, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
