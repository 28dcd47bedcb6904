package configs

import (
	_ "embed"
	"time"
)

// Example is the shipped urifilter.yaml: every key with its default and its meaning.
//
//go:embed urifilter.yaml
var Example []byte

// ExampleTokens is the shipped tokens.example.yaml.
//
//go:embed tokens.example.yaml
var ExampleTokens []byte

// ExampleHosts is the manual of the toolkit's inventory.
//
//go:embed hosts.example.yaml
var ExampleHosts []byte

// Default returns the settings of a daemon that was told nothing.
func Default() Config {
	return Config{
		Listen:          "127.0.0.1:8000",
		DataDir:         "/var/lib/urifilter",
		Store:           "embedded",
		Durability:      "always",
		CheckpointBytes: 64 * MiB,
		Redis:           Redis{Addrs: []string{"127.0.0.1:6379"}, InDoubt: "seen", Durability: "server"},
		MongoDB:         MongoDB{Database: "urifilter", IfUnreachable: "wait"},
		URINumScale:     10_000_000,
		AcceptErrorRate: 0.0001,
		Auth:            Auth{AllowedHosts: []string{}},
		Filters: []Filter{
			{ID: 1, Name: "uri", Kind: "bloom", OnFull: "warn"},
			{ID: 2, Name: "ip", Kind: "bloom", OnFull: "warn"},
			{ID: 3, Name: "uri_generator", Kind: "bloom", OnFull: "warn"},
			{ID: 4, Name: "uri_download", Kind: "bloom", OnFull: "warn"},
			{ID: 5, Name: "uri_parse", Kind: "bloom", OnFull: "warn"},
		},
		Limits: Limits{
			BodyBytes:     64 * MiB,
			Items:         100_000,
			ItemBytes:     64 * KiB,
			HeaderTimeout: 10 * time.Second,
			BodyTimeout:   30 * time.Second,
			Connections:   10_000,
		},
		Writeback:       Writeback{Keep: 3},
		ShutdownTimeout: 30 * time.Second,
		Log:             Log{Level: "info", Format: "auto"},
	}
}

// Specs returns the filters with what they leave out filled in from the defaults.
// An ID of 0 is left for the daemon to choose.
func (c Config) Specs() []Filter {
	specs := make([]Filter, len(c.Filters))
	for i, f := range c.Filters {
		if f.Kind == "" {
			f.Kind = "bloom"
		}
		if f.Kind != "bloom" {
			specs[i] = f
			continue
		}
		if f.Capacity == 0 {
			f.Capacity = c.URINumScale
		}
		if f.ErrorRate == 0 {
			f.ErrorRate = c.AcceptErrorRate
		}
		if f.OnFull == "" {
			f.OnFull = "warn"
		}
		specs[i] = f
	}
	return specs
}
