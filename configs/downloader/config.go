// Package downloader holds the settings of uridownloader: the struct with its defaults, the
// strict reader of file and environment, the validation. The field comments and
// configs/uridownloader.yaml are the manual.
package downloader

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/configs/strict"
)

// Config holds the settings of the program.
type Config struct {
	// Listen is the host:port that the master listens on. An address other than loopback
	// needs auth.tokens_file. Default 127.0.0.1:8001.
	Listen string `yaml:"listen"`
	// DataDir is the folder of the embedded store and of the embedded filter. One process that
	// serves all roles owns it, or the processes of single roles on this machine share it.
	// Default /var/lib/uridownloader.
	DataDir string `yaml:"data_dir"`
	// Store says where jobs, tasks and data live: embedded (data_dir of this machine) or mongodb
	// (several machines). Default embedded.
	Store string `yaml:"store"`
	// MongoDB is the database of store: mongodb.
	MongoDB MongoDB `yaml:"mongodb"`
	// AllowPrivate lets tasks, and proxies of jobs, call private and loopback addresses, and others
	// that are not part of the public Internet; never metadata services. Default false.
	AllowPrivate bool    `yaml:"allow_private"`
	Proxies      Proxies `yaml:"proxies"`
	// UserAgent names the program in each request, with a contact for the owners of sites.
	// Its first word is the name that is looked up in robots.txt. Default uridownloader.
	UserAgent string   `yaml:"user_agent"`
	Filter    Filter   `yaml:"filter"`
	Dispatch  Dispatch `yaml:"dispatch"`
	Worker    Worker   `yaml:"worker"`
	Browser   Browser  `yaml:"browser"`
	Script    Script   `yaml:"script"`
	Report    Report   `yaml:"report"`
	Redis     Redis    `yaml:"redis"`
	// KeepLogs is how long the log of an attempt is kept; 0: forever. Default 720h.
	KeepLogs time.Duration `yaml:"keep_logs"`
	Auth     Auth          `yaml:"auth"`
	TLS      configs.TLS   `yaml:"tls"`
	Limits   Limits        `yaml:"limits"`
	// ShutdownTimeout is how long a stop waits for requests and downloads in progress; tasks
	// that are not done by then are given back. Default 30s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	Log             configs.Log   `yaml:"log"`
}

// MongoDB is the database of store: mongodb.
type MongoDB struct {
	// URI is a connection string, mongodb://... or mongodb+srv://...; it may hold a password,
	// which is never shown. It has all members of a replica set, and the name of the set
	// (?replicaSet=...). Default "": it is in URIFile.
	URI string `yaml:"uri"`
	// URIFile holds the URI and nothing else. Default "".
	URIFile string `yaml:"uri_file"`
	// CallTLS overrides what the URI says about TLS; with tls false only the URI decides.
	configs.CallTLS `yaml:",inline"`
	// Database is the name of the database, which only the downloader uses.
	// Default uridownloader.
	Database string `yaml:"database"`
}

// Proxies says which proxies jobs may use.
type Proxies struct {
	// Allowed are proxies that jobs may use although allow_private does not let them: host:port, the
	// name as in the job, or network/bits:port. Never metadata services. Default none.
	Allowed []string `yaml:"allowed"`
}

// Filter says which filter decides whether a URI is new, for jobs that name one.
type Filter struct {
	// URL is that of a urifilter daemon. Default "": the program's own filters, in data_dir,
	// for a process that serves all roles; separate masters and workers need the URL.
	URL string `yaml:"url"`
	// TokenFile holds the token for it and nothing else. Default "": none.
	TokenFile string `yaml:"token_file"`
}

// Dispatch says how tasks are handed out.
type Dispatch struct {
	// Listen is the host:port of a dispatcher that is a separate process, for /livez, /readyz and
	// /metrics, which need no token. Default 127.0.0.1:8003.
	Listen string `yaml:"listen"`
	// Every is how often the dispatcher looks for tasks to hand out, in addition to at once when
	// a job or URIs come in. 1s or more. Default 5m.
	Every time.Duration `yaml:"every"`
	// Ready is how many tasks of a lane may be handed out and not yet taken. Default 7000.
	Ready int `yaml:"ready"`
}

// Worker says how tasks are downloaded.
type Worker struct {
	// Listen is the host:port of a worker that is a separate process, for /livez, /readyz and
	// /metrics, which need no token. Default 127.0.0.1:8002.
	Listen string `yaml:"listen"`
	// Concurrency is how many downloads may run at once. 1 to 10000. Default 100.
	Concurrency int `yaml:"concurrency"`
	// Lease is how long a silent worker keeps a task. 10s or more.
	// Default 1m.
	Lease time.Duration `yaml:"lease"`
	// Lanes are the lanes of jobs that it serves: normal, urgency, foreign.
	// Default normal and urgency.
	Lanes []string `yaml:"lanes"`
	// ShareAddresses says that hosts that answer from one address are one server, and share
	// delay and concurrency. Default true.
	ShareAddresses bool `yaml:"share_addresses"`
}

// Browser is for jobs with download_engine: browser.
type Browser struct {
	// Path is the headless Chromium that is run. Default "": chromium-headless-shell, or another of
	// the usual names, in PATH.
	Path string `yaml:"path"`
	// Pages is how many pages are loaded at once, each in its own browser. 1 to 100. Default 2.
	Pages int `yaml:"pages"`
	// Memory is how much each process of a browser may use for its data; a page has one process.
	// 256 MiB or more. Default 1GiB.
	Memory configs.Size `yaml:"memory"`
	// Required says that a worker without a browser, or without its jail, does not start, and that
	// the toolkit installs Debian's chromium-headless-shell if Path names no other. Default false:
	// such a worker leaves those jobs to others.
	Required bool `yaml:"required"`
}

// Script bounds the scripts of jobs. Each attempt of a job with a script is a process.
type Script struct {
	// Python is the path of a Python, 3.11 or newer, that runs scripts written in it. Default "": there
	// is none, and such jobs are refused.
	Python string `yaml:"python"`
	// Processes is how many processes may run code at once; those that wait for a page are not counted.
	// 1 to 1000. Default 16.
	Processes int `yaml:"processes"`
	// Memory is how much memory each may write to. 128MiB to 16GiB. Default 256MiB.
	Memory configs.Size `yaml:"memory"`
	// CPU is how long each may use the processor, in whole seconds. 1s to 10m. Default 1m.
	CPU time.Duration `yaml:"cpu"`
}

// Report says who is notified when all tasks of a job have ended, and of errors of the program.
type Report struct {
	// DSN is https://KEY@HOST/PROJECT, as Sentry and services like it give it out: errors of the
	// log, and warnings that name one, are sent to it, without bodies, queries and credentials.
	// Default "": nothing is sent.
	DSN string `yaml:"dsn"`
	// Webhook is a URL that is called with the report as JSON, by POST. Default "": none.
	Webhook string `yaml:"webhook"`
	// WebhookTokenFile holds the token that is sent to it. Default "": none.
	WebhookTokenFile string `yaml:"webhook_token_file"`
	// MailServer is the host:port of the server that sends mail to the report_mails of a job.
	// Default "": none is sent, and jobs that name addresses are refused.
	MailServer string `yaml:"mail_server"`
	// MailFrom is the sender's address.
	MailFrom string `yaml:"mail_from"`
	// MailUser is the user who logs in at the server. Default "": nobody.
	MailUser string `yaml:"mail_user"`
	// MailPasswordFile holds the password and nothing else.
	MailPasswordFile string `yaml:"mail_password_file"`
	// MailTLS is how the connection is secured: starttls, tls (from the beginning) or none.
	// Default starttls.
	MailTLS string `yaml:"mail_tls"`
}

// Redis notifies roles in other processes that there is work to do. Nothing is stored in it.
type Redis struct {
	// RedisServers are like those of urifilter; several addrs without master_name are a cluster.
	// Default of addrs: none; without addrs and url each role polls the store every second.
	configs.RedisServers `yaml:",inline"`
	// URL replaces addrs, username, db and tls: redis://HOST:PORT/DB, or rediss:// for TLS; with
	// addr=HOST:PORT in its query, once for each further server, it is that of a cluster. Default "".
	URL string `yaml:"url"`
}

// Auth says who may call.
type Auth struct {
	// TokensFile lists the tokens that callers present, with the scopes read, submit and
	// admin. Default "": everybody may do everything, on a loopback address only.
	TokensFile string `yaml:"tokens_file"`
	// AllowedHosts are the names that calls may have as Host if there is no tokens_file,
	// besides localhost and loopback addresses. Default none.
	AllowedHosts []string `yaml:"allowed_hosts"`
}

// Limits bound what one request may cost.
type Limits struct {
	// JobBytes is the largest job with its code and the list of URIs in it; a stream of URIs
	// is not bound by it. All jobs that are read at a time may take 16 times as much memory, and
	// 64 MiB at least. 1 KiB to 1 GiB. Default 16MiB.
	JobBytes configs.Size `yaml:"job_bytes"`
	// HeaderTimeout is how long a caller may take to send a request's header. Default 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// BodyTimeout is how long a caller may pause while it sends a body, and while it reads an
	// answer. Default 30s.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// Connections is how many may be open at once; at most half as many calls of one token run at
	// once. 0: no limit. Default 1000.
	Connections int `yaml:"connections"`
}

// Scopes returns the scopes that a token can have.
func Scopes() []string { return []string{"read", "submit", "admin"} }

// Default returns the default settings of the program.
func Default() Config {
	return Config{
		Listen:          "127.0.0.1:8001",
		DataDir:         "/var/lib/uridownloader",
		Store:           "embedded",
		MongoDB:         MongoDB{Database: "uridownloader"},
		UserAgent:       "uridownloader",
		Dispatch:        Dispatch{Listen: "127.0.0.1:8003", Every: 5 * time.Minute, Ready: 7000},
		Worker:          Worker{Listen: "127.0.0.1:8002", Concurrency: 100, Lease: time.Minute, Lanes: []string{"normal", "urgency"}, ShareAddresses: true},
		Browser:         Browser{Pages: 2, Memory: configs.GiB},
		Script:          Script{Processes: 16, Memory: 256 * configs.MiB, CPU: time.Minute},
		Report:          Report{MailTLS: "starttls"},
		Proxies:         Proxies{Allowed: []string{}},
		Redis:           Redis{RedisServers: configs.RedisServers{Addrs: []string{}}},
		KeepLogs:        720 * time.Hour,
		Auth:            Auth{AllowedHosts: []string{}},
		Limits:          Limits{JobBytes: 16 * configs.MiB, HeaderTimeout: 10 * time.Second, BodyTimeout: 30 * time.Second, Connections: 1000},
		ShutdownTimeout: 30 * time.Second,
		Log:             configs.Log{Level: "info", Format: "auto"},
	}
}

// Load returns the defaults, overridden by the YAML file at path ("": none), overridden by the
// variables of env. The error joins all faults. It does not validate.
func Load(path string, env []string) (Config, error) {
	c := Default()
	err := source().Read(path, env, &c)
	return c, err
}

// Parse is Load for the text of a file, which need not be on this machine, without an
// environment.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	err := strict.Decode(file, data, &c)
	return c, err
}

// CheckKeys checks whether n, the part of a file under key, can serve as settings: whether it has
// their keys, with values of their types. Validate judges what the values mean together.
func CheckKeys(file, key string, n *yaml.Node) error {
	c := Default()
	return strict.DecodeNode(file, key, n, &c)
}

func source() strict.Source {
	foreign := map[string]bool{"URIDOWNLOADER_CONFIG": true, "URIDOWNLOADER_URL": true, "URIDOWNLOADER_TOKEN": true, "URIDOWNLOADER_TOKEN_FILE": true}
	return strict.Source{Prefix: "URIDOWNLOADER_", Foreign: func(name string) bool { return foreign[name] }}
}

// URL returns the address at which a master with these settings answers on its own machine.
func (c Config) URL() string { return address.URL(c.TLS.CertFile != "", c.Listen) }
