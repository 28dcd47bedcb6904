package downloader

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/strict"
)

const manual = "../uridownloader.yaml"

// The shipped file is the manual: it has every key, with its default.
func TestTheManualHasEveryKeyWithItsDefault(t *testing.T) {
	c, err := Load(manual, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("got %+v, want %+v", c, Default())
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range strict.Leaves(reflect.ValueOf(&c).Elem()) {
		name := leaf.Key[strings.LastIndex(leaf.Key, ".")+1:]
		if !regexp.MustCompile(`(?m)^ *` + name + `:`).Match(text) {
			t.Errorf("%s is not in it", leaf.Key)
		}
	}
}

func TestEnvironmentGoesBeforeTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "u.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\ndispatch: {every: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, []string{"URIDOWNLOADER_DISPATCH_EVERY=2s", "URIDOWNLOADER_TOKEN=x"})
	if err != nil || c.Listen != "127.0.0.1:1" || c.Dispatch.Every.String() != "2s" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Load("", []string{"URIDOWNLOADER_LISTN=x"}); err == nil || !strings.Contains(err.Error(), "URIDOWNLOADER_LISTN") {
		t.Errorf("a variable that does not exist: %v", err)
	}
	if err := os.WriteFile(file, []byte("dispatch: {evry: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil); err == nil || !strings.Contains(err.Error(), "u.yaml:1: dispatch.evry: unknown key; did you mean every?") {
		t.Errorf("a key that does not exist: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for fault, change := range map[string]func(*Config){
		`listen: "x"`:                               func(c *Config) { c.Listen = "x" },
		`listen: ":1": other machines`:              func(c *Config) { c.Listen = ":1" },
		`auth.allowed_hosts[0]`:                     func(c *Config) { c.Auth.AllowedHosts = []string{"a:1"} },
		`tls: cert_file`:                            func(c *Config) { c.TLS.CertFile = "x" },
		`store: "redis"`:                            func(c *Config) { c.Store = "redis" },
		`data_dir`:                                  func(c *Config) { c.DataDir = "" },
		`mongodb.uri: "": store: mongodb`:           func(c *Config) { c.Store = "mongodb" },
		`mongodb.uri: want mongodb://`:              func(c *Config) { c.Store, c.MongoDB.URI = "mongodb", "http://h" },
		`mongodb.uri and mongodb.uri_file`:          func(c *Config) { c.Store, c.MongoDB.URI, c.MongoDB.URIFile = "mongodb", "mongodb://h/", "f" },
		`mongodb.database: "a b"`:                   func(c *Config) { c.Store, c.MongoDB.URIFile, c.MongoDB.Database = "mongodb", "f", "a b" },
		`mongodb.tls_ca_file: "x"`:                  func(c *Config) { c.Store, c.MongoDB.URIFile, c.MongoDB.TLSCAFile = "mongodb", "f", "x" },
		`proxies.allowed[0]: "10.0.0.1"`:            func(c *Config) { c.Proxies.Allowed = []string{"10.0.0.1"} },
		`user_agent`:                                func(c *Config) { c.UserAgent = "a\nb" },
		`filter.url`:                                func(c *Config) { c.Filter.URL = "localhost:8000" },
		`dispatch.listen: "y"`:                      func(c *Config) { c.Dispatch.Listen = "y" },
		`worker.listen: "z"`:                        func(c *Config) { c.Worker.Listen = "z" },
		`dispatch.every`:                            func(c *Config) { c.Dispatch.Every = 1 },
		`dispatch.ready`:                            func(c *Config) { c.Dispatch.Ready = 0 },
		`worker.concurrency`:                        func(c *Config) { c.Worker.Concurrency = 20_000 },
		`worker.lease`:                              func(c *Config) { c.Worker.Lease = 0 },
		`worker.lanes[1]: "slow"`:                   func(c *Config) { c.Worker.Lanes = []string{"normal", "slow"} },
		`browser.pages: 0`:                          func(c *Config) { c.Browser.Pages = 0 },
		`browser.memory: 1MiB`:                      func(c *Config) { c.Browser.Memory = configs.MiB },
		`worker.lanes: empty`:                       func(c *Config) { c.Worker.Lanes = nil },
		`report.dsn: want https://KEY@HOST/PROJECT`: func(c *Config) { c.Report.DSN = "https://key:secret@host.example/1" },
		`report.webhook: want a URL`:                func(c *Config) { c.Report.Webhook = "x" },
		`report.webhook_token_file: "x"`:            func(c *Config) { c.Report.WebhookTokenFile = "x" },
		`report.mail_tls: "ssl"`:                    func(c *Config) { c.Report.MailTLS = "ssl" },
		`report.mail_user: "x": without`:            func(c *Config) { c.Report.MailUser = "x" },
		`report.mail_server`:                        func(c *Config) { c.Report.MailServer, c.Report.MailFrom = "mail", "a@example.com" },
		`report.mail_from: ""`:                      func(c *Config) { c.Report.MailServer = "mail:25" },
		`redis.url: want redis://`:                  func(c *Config) { c.Redis.URL = "127.0.0.1:6379" },
		`redis.addrs[0]: "x"`:                       func(c *Config) { c.Redis.Addrs = []string{"x"} },
		`redis.db: 1: want 0`:                       func(c *Config) { c.Redis.Addrs, c.Redis.DB = []string{"a:1", "b:1"}, 1 },
		`redis.tls_ca_file: "x"`:                    func(c *Config) { c.Redis.Addrs, c.Redis.TLSCAFile = []string{"a:1"}, "x" },
		`redis.master_name: redis.addrs`:            func(c *Config) { c.Redis.MasterName = "m" },
		`redis.url and redis.addrs`:                 func(c *Config) { c.Redis.URL, c.Redis.Addrs = "redis://h:1", []string{"a:1"} },
		`redis.url and redis.tls`:                   func(c *Config) { c.Redis.URL, c.Redis.TLS = "redis://h:1", true },
		`report: mail_user "x"`: func(c *Config) {
			c.Report.MailServer, c.Report.MailFrom, c.Report.MailUser = "mail:25", "a@example.com", "x"
		},
		`keep_logs`:             func(c *Config) { c.KeepLogs = -1 },
		`limits.job_bytes`:      func(c *Config) { c.Limits.JobBytes = 1 },
		`limits.header_timeout`: func(c *Config) { c.Limits.HeaderTimeout = 0 },
		`limits.body_timeout`:   func(c *Config) { c.Limits.BodyTimeout = 0 },
		`limits.connections`:    func(c *Config) { c.Limits.Connections = -1 },
		`shutdown_timeout`:      func(c *Config) { c.ShutdownTimeout = 0 },
		`log.level: "loud"`:     func(c *Config) { c.Log.Level = "loud" },
		`log.format: "xml"`:     func(c *Config) { c.Log.Format = "xml" },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), fault) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", fault, err)
		}
	}
	c := Default()
	c.Listen, c.Auth.TokensFile = ":1", "tokens.yaml"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
