package configs

import (
	"strings"
	"testing"
	"time"
)

func TestValidateFaults(t *testing.T) {
	const longName = "a2345678901234567890123456789012345678901234567890123456789012345"
	one := func(f Filter) func(*Config) { return func(c *Config) { c.Filters = []Filter{f} } }
	for _, test := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Store = "disk" }, `store: "disk": want embedded or redis`},
		{func(c *Config) { c.Durability = "sometimes" }, `durability: "sometimes": want always or interval or none`},
		{func(c *Config) { c.DataDir = "" }, `data_dir: ""`},
		{func(c *Config) { c.CheckpointBytes = 1 }, "checkpoint_bytes: 1: want 64KiB to 1TiB"},
		{func(c *Config) { c.Listen = "8000" }, `listen: "8000": want host:port`},
		{func(c *Config) { c.Listen = "127.0.0.1:http" }, `listen: "127.0.0.1:http": want host:port`},
		{func(c *Config) { c.Listen = "127.0.0.1:65536" }, "want host:port"},
		{func(c *Config) { c.Listen = ":8000" }, `listen: ":8000": other machines could call without a token: set auth.tokens_file`},
		{func(c *Config) { c.Listen = "0.0.0.0:8000" }, "other machines"},
		{func(c *Config) { c.Listen = "[::]:8000" }, "other machines"},
		{func(c *Config) { c.Listen = "filter.example:8000" }, "other machines"},
		{func(c *Config) { c.Listen = "localhost.example:8000" }, "other machines"},
		{func(c *Config) { c.TLS.CertFile = "c" }, `tls: cert_file "c" and key_file "": want both or neither`},
		{func(c *Config) { c.TLS.KeyFile = "k" }, "tls: "},
		{func(c *Config) { c.Store, c.Redis.TLSCAFile = "redis", "ca.pem" }, `redis.tls_ca_file: "ca.pem": redis.tls is false: want true, or none of its settings`},
		{func(c *Config) { c.Store, c.Redis.TLS, c.Redis.TLSCertFile = "redis", true, "c.pem" }, `redis.tls_cert_file: "c.pem" and tls_key_file "": want both or neither`},
		{func(c *Config) { c.MongoDB.URI, c.MongoDB.TLSServerName = "mongodb://h/", "h" }, `mongodb.tls_server_name: "h": mongodb.tls is false`},
		{func(c *Config) { c.URINumScale = 0 }, "uri_num_scale: 0: want 1 to 1099511627776"},
		{func(c *Config) { c.URINumScale = 1<<40 + 1 }, "uri_num_scale: "},
		{func(c *Config) { c.AcceptErrorRate = 0 }, "accept_error_rate: 0: want 1e-06 to 0.5"},
		{func(c *Config) { c.AcceptErrorRate = 0.6 }, "accept_error_rate: 0.6"},
		{func(c *Config) { c.AcceptErrorRate = 1e-7 }, "accept_error_rate: 1e-07"},
		{one(Filter{Name: "a", Params: Bloom{Capacity: 1<<40 + 1}}), "filters[0].capacity: "},
		{one(Filter{Name: "a", Params: Bloom{ErrorRate: -0.1}}), "filters[0].error_rate: -0.1"},
		{one(Filter{Name: ""}), `filters[0].name: ""`},
		{one(Filter{Name: "9a"}), `filters[0].name: "9a"`},
		{one(Filter{Name: "a/b"}), `filters[0].name: "a/b"`},
		{one(Filter{Name: longName}), "filters[0].name: "},
		{one(Filter{Name: "a", ID: -1}), "filters[0].id: -1: want 1 or more"},
		{one(Filter{Name: "a", Kind: "simhash", Params: Simhash{Distance: 8}}), "filters[0].distance: 8: want 1 to 7"},
		{one(Filter{Name: "a", Kind: "simhash", Params: Simhash{FeatureHash: "sha1"}}), `filters[0].feature_hash: "sha1": want xxh3 or md5`},
		{one(Filter{Name: "a", Kind: "exact", Params: Exact{Digest: 96}}), "filters[0].digest: 96: want 64 or 128"},
		{func(c *Config) {
			c.MySQL.Addr, c.Filters = "h:1", []Filter{{Name: "a", Kind: "exact", Params: Exact{Digest: 64, Store: "mysql"}}}
		}, "filters[0].digest: 64: is for store: embedded: want 128 with store: mysql"},
		{func(c *Config) {
			c.Store, c.Filters = "redis", []Filter{{Name: "a", Kind: "exact", Params: Exact{Digest: 64}}}
		}, "filters[0].digest: 64: is for store: embedded: want 128 with store: redis"},
		{one(Filter{Name: "a", Kind: "cuckoo"}), `filters[0].kind: "cuckoo": want bloom or timing`},
		{one(Filter{Name: "a", Kind: "timing", Params: Timing{Expire: -time.Second}}), "filters[0].expire: -1s: want 1ms to 87600h (ten years)"},
		{one(Filter{Name: "a", Kind: "timing", Params: Timing{Expire: 87600*time.Hour + 1}}), "filters[0].expire"},
		{one(Filter{Name: "a", Kind: "timing", Params: Timing{Expire: time.Microsecond}}), "whole milliseconds"},
		{one(Filter{Name: "a", Kind: "timing", Params: Bloom{Capacity: 10}}), "filters[0].kind: timing: its parameters are those of another kind"},
		{one(Filter{Name: "a", Params: Bloom{OnFull: "shrink"}}), `filters[0].on_full: "shrink": want grow or warn or reject`},
		{func(c *Config) { c.Filters = []Filter{{Name: "a"}, {Name: "b"}, {Name: "a"}} }, `filters[2].name: "a": is that of filters[0]`},
		{func(c *Config) { c.Filters = []Filter{{Name: "a", ID: 4}, {Name: "b", ID: 4}} }, "filters[1].id: 4: is that of filters[0]"},
		{func(c *Config) { c.Limits.BodyBytes = 10; c.Limits.ItemBytes = 10 }, "limits.body_bytes: 10: want 1KiB to 1TiB"},
		{func(c *Config) { c.Limits.ItemBytes = 65 * MiB }, "limits.item_bytes: 65MiB: want 1 to limits.body_bytes, 64MiB"},
		{func(c *Config) { c.Limits.TextBytes = 0 }, "limits.text_bytes: 0: want 1 to 1TiB"},
		{func(c *Config) { c.Limits.ItemBytes = 0 }, "limits.item_bytes: 0"},
		{func(c *Config) { c.Limits.Items = 0 }, "limits.items: 0: want 1 or more"},
		{func(c *Config) { c.Auth.AllowedHosts = []string{"a", "b:8000"} }, `auth.allowed_hosts[1]: "b:8000": want the name`},
		{func(c *Config) { c.Auth.ProtectMetrics = true }, "auth.protect_metrics: true: there is no token"},
		{func(c *Config) { c.Auth.AllowedHosts = []string{"*"} }, `auth.allowed_hosts[0]: "*"`},
		{func(c *Config) { c.Limits.HeldBytes = 100 * MiB }, "limits.held_bytes: 100MiB: want 0, or twice limits.body_bytes (64MiB) and more"},
		{func(c *Config) { c.Limits.HeldBytes = -1 }, "limits.held_bytes: -1"},
		{func(c *Config) { c.Limits.FilterBytes = KiB }, "limits.filter_bytes: 1KiB: want 0"},
		{func(c *Config) { c.Limits.MemoryBytes = MiB }, "limits.memory_bytes: 1MiB: want 0"},
		{func(c *Config) { c.Limits.Connections = -1 }, "limits.connections: -1: want 1 or more, or 0 for no limit"},
		{func(c *Config) { c.Limits.ConnectionsPerAddress = -1 }, "limits.connections_per_address: -1"},
		{func(c *Config) { c.Limits.HeaderTimeout = 0 }, "limits.header_timeout: 0s"},
		{func(c *Config) { c.Limits.BodyTimeout = -time.Second }, "limits.body_timeout: -1s"},
		{func(c *Config) { c.ShutdownTimeout = 0 }, "shutdown_timeout: 0s"},
		{func(c *Config) { c.Log.Level = "loud" }, `log.level: "loud"`},
		{func(c *Config) { c.Log.Format = "xml" }, `log.format: "xml": want auto or text or json`},
		{func(c *Config) { c.Writeback.Keep = 0 }, "writeback.keep: 0"},
		{func(c *Config) { c.Writeback.Interval = time.Hour }, "writeback.interval: 1h0m0s: there is no archive"},
		{func(c *Config) { c.Writeback.Interval = time.Second; c.MongoDB.URI = "mongodb://h" }, "writeback.interval: 1s: want 0s"},
		{func(c *Config) { c.MongoDB.URI = "mongodb://h"; c.MongoDB.IfUnreachable = "" }, `mongodb.if_unreachable: "": want wait or empty`},
		{func(c *Config) { c.MongoDB.URI = "mongodb://h"; c.MongoDB.Database = "a b" }, `mongodb.database: "a b"`},
		{func(c *Config) { c.MongoDB.URI = "http://h" }, "mongodb.uri: want mongodb://"},
		{func(c *Config) { c.Store = "redis"; c.Redis.Addrs = nil }, "redis.addrs: none"},
		{func(c *Config) { c.Store = "redis"; c.Redis.Addrs = []string{"a:1", "b"} }, `redis.addrs[1]: "b"`},
		{func(c *Config) { c.Store = "redis"; c.Redis.Addrs = []string{":6379"} }, `redis.addrs[0]: ":6379"`},
		{func(c *Config) { c.Store = "redis"; c.Redis.DB = -1 }, "redis.db: -1"},
		{one(Filter{Name: "a", Kind: "exact", Params: Exact{Store: "disk"}}), `filters[0].store: "disk": want mysql, or nothing for the store of the daemon`},
		{one(Filter{Name: "a", Kind: "exact", Params: Exact{Store: "mysql"}}), `filters[0].store: "mysql": there is none: set mysql.addr`},
		{func(c *Config) { c.MySQL.Addr = "host" }, `mysql.addr: "host": want host:port`},
		{func(c *Config) { c.MySQL.Addr = ":3306" }, `mysql.addr: ":3306": want host:port of a server, or the path of a socket`},
		{func(c *Config) { c.MySQL.Addr, c.MySQL.User = "h:3306", "" }, `mysql.user: ""`},
		{func(c *Config) { c.MySQL.Addr, c.MySQL.Database = "h:3306", "a`b" }, "mysql.database: \"a`b\": want 1 to 64 letters"},
		{func(c *Config) { c.MySQL.Addr, c.MySQL.TLSCAFile = "h:3306", "ca.pem" }, `mysql.tls_ca_file: "ca.pem": mysql.tls is false`},
		{func(c *Config) { c.Store, c.Redis.MirrorBytes = "redis", MiB }, `redis.mirror_bytes: 1MiB: want 0 for whole mirrors, or 4MiB to 1TiB`},
		{func(c *Config) { c.Store = "redis"; c.Redis.InDoubt = "both" }, `redis.in_doubt: "both": want seen or new`},
		{func(c *Config) { c.Store = "redis"; c.Redis.DB = 1; c.Redis.Addrs = []string{"a:1", "b:1"} }, "redis.db: 1: want 0"},
	} {
		c := Default()
		test.change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("want %q\ngot  %v", test.want, err)
		} else if strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("want one fault, %q\ngot  %v", test.want, err)
		}
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":       func(*Config) {},
		"any port":      func(c *Config) { c.Listen = "127.9.9.9:0" },
		"IPv6 loopback": func(c *Config) { c.Listen = "[::1]:8000" },
		"localhost":     func(c *Config) { c.Listen = "localhost:8000" },
		"with tokens":   func(c *Config) { c.Listen = ":8000"; c.Auth.TokensFile = "tokens.yaml" },
		"https":         func(c *Config) { c.TLS = TLS{"c", "k"} },
		"no filters":    func(c *Config) { c.Filters = nil },
		"bare filters":  func(c *Config) { c.Filters = []Filter{{Name: "_a.b-c"}, {Name: "b"}} },
		"bounds":        func(c *Config) { c.Filters = []Filter{{Name: "a", Params: Bloom{Capacity: 1 << 40, ErrorRate: 0.5}}} },
		"timing": func(c *Config) {
			c.Filters = []Filter{{Name: "a", Kind: "timing"}, {Name: "b", Kind: "timing", Params: Timing{Expire: time.Hour}}, {Name: "c", Kind: "timing", Params: Timing{Expire: 87600 * time.Hour}}}
		},
		"mysql": func(c *Config) {
			c.Store, c.MySQL.Addr = "redis", "/run/mysqld/mysqld.sock"
			c.Filters = []Filter{{Name: "a", Kind: "exact", Params: Exact{Store: "mysql"}}}
		},
		"mysql unused": func(c *Config) { c.MySQL.User = "" },
		"redis unused": func(c *Config) { c.Redis.Addrs = nil },
		"redis sentinels": func(c *Config) {
			c.Store = "redis"
			c.Redis = Redis{RedisServers: RedisServers{Addrs: []string{"a:1", "b:1"}, DB: 3, MasterName: "m"}, InDoubt: "seen", Durability: "server", MirrorBytes: 4 * MiB}
		},
		"redis, no folder": func(c *Config) {
			c.Store = "redis"
			c.DataDir = ""
		},
		"archive": func(c *Config) { c.MongoDB.URI = "mongodb://h/"; c.Writeback.Interval = time.Minute },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateJoinsFaults(t *testing.T) {
	c := Default()
	c.Store, c.Listen, c.Limits.Items = "x", "x", 0
	err := c.Validate()
	for _, want := range []string{"store:", "listen:", "limits.items:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a fault of %s in: %v", want, err)
		}
	}
}

func TestMongoURI(t *testing.T) {
	for _, uri := range []string{
		"mongodb://h", "mongodb://h:27017", "mongodb://h:1,h2:2/", "mongodb://u:p%40q@h:1,h2/db?replicaSet=rs0&x=a@b",
		"mongodb://[::1]:27017,[fe80::1]/", "mongodb+srv://u:p@cluster.example/db", "mongodb://u@h/?authMechanism=X",
	} {
		if err := validMongoURI(uri); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, uri := range []string{
		"h:27017", "mongodb:h", "https://sEcret@h", "mongodb://", "mongodb://u:sEcret@", "mongodb://u:sEcret@h,,h2", "mongodb://u:sEcret@h:x",
		"mongodb://u:sEcret@h:0", "mongodb://u:sEcret@h:99999", "mongodb://u:sEcret/x@h", "mongodb://u:sEcret@x@h",
		"mongodb://u:sEc:ret@h", "mongodb://u:sEcret%zz@h", "mongodb+srv://u:sEcret@h:1", "mongodb+srv://u:sEcret@h,h2", "mongodb://u:sEcret@::1",
	} {
		err := validMongoURI(uri)
		if err == nil {
			t.Errorf("%s: no error", uri)
		} else if strings.Contains(err.Error(), "sEc") {
			t.Errorf("%s: the error tells the password: %v", uri, err)
		}
		if shown := maskMongoURI(uri); strings.Contains(shown, "sEcret") && strings.Contains(uri, ":sEc") {
			t.Errorf("%s: shown as %s", uri, shown)
		}
	}
}

func TestMaskMongoURI(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://h:27017/":               "mongodb://h:27017/",
		"mongodb://u@h/":                   "mongodb://u@h/",
		"mongodb://u:secret@h:1,h2/db?a=b": "mongodb://u:xxxxx@h:1,h2/db?a=b",
		"mongodb://u:se@cr/et@h":           "mongodb://u:xxxxx@h",
		"u:secret@h":                       "u:xxxxx@h",
		"mongodb://h/?tlsCertificateKeyFilePassword=secret&a=b":               "mongodb://h/?tlsCertificateKeyFilePassword=xxxxx&a=b",
		"mongodb://h/?a=b&authMechanismProperties=AWS_SESSION_TOKEN:secret":   "mongodb://h/?a=b&authMechanismProperties=xxxxx",
		"mongodb://h/?AUTHMECHANISMPROPERTIES=secret;proxyPassword=secret&c=": "mongodb://h/?AUTHMECHANISMPROPERTIES=xxxxx;proxyPassword=xxxxx&c=",
	} {
		if got := maskMongoURI(uri); got != want {
			t.Errorf("mask of %s:\ngot  %s\nwant %s", uri, got, want)
		}
	}
}
