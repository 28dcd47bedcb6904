package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/bench/downloads"
)

// part is measured by itself. Its tables and charts are named here, and docs have a place for each.
type part struct {
	name           string
	tables, charts []string
	named          bool // it is run only if it is named: few machines have what it needs
	run            func(settings) error
}

func parts() []part {
	return []part{
		{name: "inprocess", tables: []string{"inprocess"}, run: inProcess},
		{name: "fpr", tables: []string{"fpr"}, charts: []string{"fpr"}, run: falsePositives},
		{name: "hash", tables: []string{"hash"}, charts: []string{"hashes"}, run: hashFunctions},
		{name: "http", tables: []string{"http"}, charts: []string{"http", "latency"}, run: overHTTP},
		{name: "resp", tables: []string{"resp"}, run: overRESP},
		{name: "restart", tables: []string{"restart"}, run: restart},
		{name: "redis", tables: []string{"redis"}, run: overRedis},
		{name: "cluster", tables: []string{"cluster"}, run: overCluster},
		{name: "kinds", tables: []string{"kinds", "sweeps"}, run: kindsInMemory},
		{name: "kindshttp", tables: []string{"kindshttp"}, run: kindsOverHTTP},
		{name: "kindsredis", tables: []string{"kindsredis"}, run: kindsOverRedis},
		{name: "mariadb", tables: []string{"mariadb"}, run: kindsOverMariaDB},
		{name: "kindsrestart", tables: []string{"kindsrestart"}, run: kindsRestart},
		{name: "near", tables: []string{"fingerprints", "lookups", "near"}, run: texts},
		{name: "clients", tables: []string{"clients"}, run: overClients},
		{name: "python", tables: []string{"python"}, run: overPython},
		{name: "downloads", tables: []string{"downloads", "storecalls", "queued"}, run: func(s settings) error { return downloads.Run(s.ofDownloads(), s.out) }},
		{name: "grouped", tables: []string{"grouped"}, run: func(s settings) error { return downloads.Grouped(s.ofDownloads(), s.out) }},
		{name: "crawl", tables: []string{"crawl"}, run: func(s settings) error { return downloads.Crawl(s.ofDownloads(), s.out) }},
		{name: "browser", tables: []string{"browser"}, named: true, run: func(s settings) error { return downloads.Browser(s.ofDownloads(), s.out) }},
	}
}

// only returns the parts of a comma-separated list; "": all but those that are run only if named.
func only(list string) ([]part, error) {
	all := parts()
	if list == "" {
		return slices.DeleteFunc(all, func(p part) bool { return p.named }), nil
	}
	var chosen []part
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only=%s: there is no part %q\nhint: the parts are %s", list, name, partNames())
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func partNames() string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// shown returns the tables and charts of all parts.
func shown() (tables, charts []string) {
	for _, p := range parts() {
		tables, charts = append(tables, p.tables...), append(charts, p.charts...)
	}
	return tables, charts
}
