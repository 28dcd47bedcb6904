package configs

import (
	_ "embed"
	"strings"
	"time"
)

// Example is the shipped urifilter.yaml: every key with its default and its meaning.
//
//go:embed urifilter.yaml
var Example []byte

// ExampleDownloader is the shipped uridownloader.yaml; package downloader reads it.
//
//go:embed uridownloader.yaml
var ExampleDownloader []byte

// ExampleTokens is the shipped tokens.example.yaml.
//
//go:embed tokens.example.yaml
var ExampleTokens []byte

// ExampleHosts is the manual of the toolkit's inventory.
//
//go:embed hosts.example.yaml
var ExampleHosts []byte

// Default returns the default settings of the daemon.
func Default() Config {
	return Config{
		Listen:          "127.0.0.1:8000",
		DataDir:         "/var/lib/urifilter",
		Store:           StoreEmbedded,
		Durability:      "always",
		CheckpointBytes: 64 * MiB,
		Redis:           Redis{RedisServers: RedisServers{Addrs: []string{"127.0.0.1:6379"}}, InDoubt: "seen", Durability: "server"},
		MySQL:           MySQL{User: "urifilter", Database: "urifilter"},
		MongoDB:         MongoDB{Database: "urifilter", IfUnreachable: "wait"},
		URINumScale:     10_000_000,
		AcceptErrorRate: 0.0001,
		CanonicalDrop:   strings.Split(Tracking, ","),
		Auth:            Auth{AllowedHosts: []string{}},
		Filters:         defaultFilters("uri", "ip", "uri_generator", "uri_download", "uri_parse"),
		Limits: Limits{
			BodyBytes:     64 * MiB,
			Items:         100_000,
			ItemBytes:     64 * KiB,
			TextBytes:     4 * MiB,
			HeaderTimeout: 10 * time.Second,
			BodyTimeout:   30 * time.Second,
			CompressBytes: 64 * KiB,
			Connections:   10_000,
		},
		Writeback:       Writeback{Keep: 3},
		ShutdownTimeout: 30 * time.Second,
		Log:             Log{Level: "info", Format: "auto"},
	}
}

// defaultFilters returns filters of the default kind, numbered from 1.
func defaultFilters(names ...string) []Filter {
	var all []Filter
	for i, name := range names {
		all = append(all, Filter{ID: i + 1, Name: name, Kind: DefaultKind().Name, Params: Bloom{}})
	}
	return all
}

// Specs returns the filters with what they leave out filled in from the defaults.
// An ID of 0 is left for the daemon to choose.
func (c Config) Specs() []Filter {
	return c.complete(c.Defaults())
}

func (c Config) complete(d Defaults) []Filter {
	specs := make([]Filter, len(c.Filters))
	for i, f := range c.Filters {
		specs[i] = f.Complete(d)
	}
	return specs
}
