package urifilter

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cr-clawer/urifilter/provision/program"
)

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
