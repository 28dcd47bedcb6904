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

// Config is what the program is told.
type Config struct {
	// Listen is the host:port at which the master is called. An address other than loopback
	// needs auth.tokens_file. Default 127.0.0.1:8001.
	Listen string `yaml:"listen"`
	// DataDir is the folder of the embedded store and of the embedded filter. One process owns
	// it at a time. Default /var/lib/uridownloader.
	DataDir string `yaml:"data_dir"`
	// Store says where jobs, tasks and data live: embedded (data_dir of this machine) or mongodb
	// (several machines). Default embedded.
	Store string `yaml:"store"`
	// MongoDB is the database of store: mongodb.
	MongoDB MongoDB `yaml:"mongodb"`
	// AllowPrivate lets tasks go to private and loopback addresses, and others that are no
	// part of the public Internet. Default false.
	AllowPrivate bool `yaml:"allow_private"`
	// UserAgent names the program, and whom a site's owner can write to, in each request.
	// Robots.txt is matched by its first word. Default uridownloader.
	UserAgent string   `yaml:"user_agent"`
	Filter    Filter   `yaml:"filter"`
	Dispatch  Dispatch `yaml:"dispatch"`
	Worker    Worker   `yaml:"worker"`
	Browser   Browser  `yaml:"browser"`
	Script    Script   `yaml:"script"`
	Report    Report   `yaml:"report"`
	Redis     Redis    `yaml:"redis"`
	// KeepLogs is how long the log of an attempt is kept; 0: for ever. Default 720h.
	KeepLogs time.Duration `yaml:"keep_logs"`
	Auth     Auth          `yaml:"auth"`
	TLS      configs.TLS   `yaml:"tls"`
	Limits   Limits        `yaml:"limits"`
	// ShutdownTimeout is how long a stop waits for requests and downloads under way; what is
	// not done then is given back. Default 30s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	Log             configs.Log   `yaml:"log"`
}

// MongoDB is the database of store: mongodb.
type MongoDB struct {
	// URI is a connection string, mongodb://... or mongodb+srv://...; it may hold a password,
	// which is never shown. It names all members of a replica set, and its name
	// (?replicaSet=...). Default "": it is in URIFile.
	URI string `yaml:"uri"`
	// URIFile holds the URI alone. Default "".
	URIFile string `yaml:"uri_file"`
	// CallTLS goes before what the URI says of TLS; with tls false the URI alone decides.
	configs.CallTLS `yaml:",inline"`
	// Database is the name of the database, which is the downloader's alone.
	// Default uridownloader.
	Database string `yaml:"database"`
}

// Filter is the filter that is asked whether a URI is new, for jobs that name one.
type Filter struct {
	// URL is that of a urifilter daemon. Default "": filters of the program's own, in
	// data_dir, for a process that serves all roles; master and worker alone need the URL.
	URL string `yaml:"url"`
	// TokenFile holds the token for it alone. Default "": none.
	TokenFile string `yaml:"token_file"`
}

// Dispatch says how tasks are handed out.
type Dispatch struct {
	// Listen is the host:port of a dispatcher that is a process of its own, for /livez, /readyz and
	// /metrics, which ask no token. Default 127.0.0.1:8003.
	Listen string `yaml:"listen"`
	// Every is how often it is looked what there is to hand out, besides at once when a job or
	// URIs come in. 1s or more. Default 5m.
	Every time.Duration `yaml:"every"`
	// Ready is how many tasks of a lane may be handed out and not yet taken. Default 7000.
	Ready int `yaml:"ready"`
}

// Worker says how tasks are downloaded.
type Worker struct {
	// Listen is the host:port of a worker that is a process of its own, for /livez, /readyz and
	// /metrics, which ask no token. Default 127.0.0.1:8002.
	Listen string `yaml:"listen"`
	// Concurrency is how many downloads there may be at once. 1 to 10000. Default 100.
	Concurrency int `yaml:"concurrency"`
	// Lease is how long a task stays with a worker that is not heard of. 10s or more.
	// Default 1m.
	Lease time.Duration `yaml:"lease"`
	// Lanes are the kinds of jobs that it serves: normal, urgency, foreign.
	// Default normal and urgency.
	Lanes []string `yaml:"lanes"`
	// ShareAddresses: hosts that answer from one address are one server, and share delay and
	// concurrency. Default true.
	ShareAddresses bool `yaml:"share_addresses"`
}

// Browser is for jobs with download_engine: browser.
type Browser struct {
	// Path is the headless Chromium that is run. Default "": chromium-headless-shell or another of the
	// usual names, looked for in PATH.
	Path string `yaml:"path"`
	// Pages is how many are loaded at once, each in a browser of its own. 1 to 100. Default 2.
	Pages int `yaml:"pages"`
	// Memory is what each process of a browser may use for its data; a page has one. 256 MiB or more.
	// Default 1GiB.
	Memory configs.Size `yaml:"memory"`
	// Required: a worker without a browser, or without its jail, does not start, and the toolkit installs
	// Debian's chromium-headless-shell where Path names no other. Default false: such a worker leaves
	// those jobs to others.
	Required bool `yaml:"required"`
}

// Script bounds the scripts of jobs, each attempt of which is a process.
type Script struct {
	// Python is the path of a Python, 3.11 or newer, that runs scripts written in it. Default "": there
	// is none, and such jobs are refused.
	Python string `yaml:"python"`
	// Processes is how many there may be at once. 1 to 1000. Default 16.
	Processes int `yaml:"processes"`
	// Memory is what each may write to. 128MiB to 16GiB. Default 256MiB.
	Memory configs.Size `yaml:"memory"`
	// CPU is how long each may use the processor, in whole seconds. 1s to 10m. Default 1m.
	CPU time.Duration `yaml:"cpu"`
}

// Report says who is told when all tasks of a job have ended, and of errors of the program.
type Report struct {
	// DSN is https://KEY@HOST/PROJECT, as Sentry and services like it give it out: what the log has as an error, or
	// as a warning that names one, is sent there, without bodies, queries and credentials. Default "": nothing is sent.
	DSN string `yaml:"dsn"`
	// Webhook is a URL that is called with the report as JSON, by POST. Default "": none.
	Webhook string `yaml:"webhook"`
	// WebhookTokenFile holds the token that is sent to it. Default "": none.
	WebhookTokenFile string `yaml:"webhook_token_file"`
	// MailServer is the host:port of the server by which mails go to the report_mails of a job.
	// Default "": none are sent, and jobs that name addresses are refused.
	MailServer string `yaml:"mail_server"`
	// MailFrom is the address that mails come from.
	MailFrom string `yaml:"mail_from"`
	// MailUser is who logs in at the server. Default "": nobody.
	MailUser string `yaml:"mail_user"`
	// MailPasswordFile holds the password and nothing else.
	MailPasswordFile string `yaml:"mail_password_file"`
	// MailTLS is how the connection is secured: starttls, tls (from the beginning) or none.
	// Default starttls.
	MailTLS string `yaml:"mail_tls"`
}

// Redis tells roles in other processes that there is something to do. Nothing is kept there.
type Redis struct {
	// RedisServers are as those of urifilter; several addrs without master_name are a cluster. Default of
	// addrs: none; without addrs and url each role looks into the store every second.
	configs.RedisServers `yaml:",inline"`
	// URL stands for addrs, username, db and tls: redis://HOST:PORT/DB, or rediss:// for TLS; with
	// addr=HOST:PORT in its query, as often as there are more, it is that of a cluster. Default "".
	URL string `yaml:"url"`
}

// Auth says who may call.
type Auth struct {
	// TokensFile lists the tokens that callers present, with the scopes read, submit and
	// admin. Default "": everybody may do everything, on a loopback address only.
	TokensFile string `yaml:"tokens_file"`
	// AllowedHosts are names by which calls may name the master where there is no
	// tokens_file, besides localhost and loopback addresses. Default none.
	AllowedHosts []string `yaml:"allowed_hosts"`
}

// Limits bound what one request may cost.
type Limits struct {
	// JobBytes is the largest job with its code and the list of URIs in it; a stream of URIs
	// is not bound by it. 1 KiB to 1 GiB. Default 16MiB.
	JobBytes configs.Size `yaml:"job_bytes"`
	// HeaderTimeout is how long a caller may take to send a request's header. Default 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// BodyTimeout is how long a caller may send nothing of a body that it has begun, and read
	// nothing of an answer. Default 30s.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// Connections is how many may be open at once; 0: no limit. Default 1000.
	Connections int `yaml:"connections"`
}

// Scopes are what a token can allow.
func Scopes() []string { return []string{"read", "submit", "admin"} }

// Default returns the settings of a program that was told nothing.
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

// Parse is Load of the text of a file, which need not be here, without an environment.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	err := strict.Decode(file, data, &c)
	return c, err
}

// CheckKeys tells whether n, which is part of a file under key, would do as settings: whether
// it has their keys, with values of their types. What the values mean together is for Validate.
func CheckKeys(file, key string, n *yaml.Node) error {
	c := Default()
	return strict.DecodeNode(file, key, n, &c)
}

func source() strict.Source {
	foreign := map[string]bool{"URIDOWNLOADER_CONFIG": true, "URIDOWNLOADER_URL": true, "URIDOWNLOADER_TOKEN": true, "URIDOWNLOADER_TOKEN_FILE": true}
	return strict.Source{Prefix: "URIDOWNLOADER_", Foreign: func(name string) bool { return foreign[name] }}
}

// URL is where a master with these settings answers on its own machine.
func (c Config) URL() string { return c.Scheme() + address.Reachable(c.Listen) }

// Scheme begins the URL of a process with these settings: http:// or https://.
func (c Config) Scheme() string {
	if c.TLS.CertFile != "" {
		return "https://"
	}
	return "http://"
}
