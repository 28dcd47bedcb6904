package downloader

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/configs/fault"
)

// Validate returns all faults joined, each naming its key, the value found and those allowed.
func (c Config) Validate() error {
	var f fault.List
	configs.CheckListen(&f, "listen", c.Listen, c.Auth.TokensFile)
	if err := address.Check(c.Dispatch.Listen); err != nil {
		f.Add("dispatch.listen", "%w", err)
	}
	if err := address.Check(c.Worker.Listen); err != nil {
		f.Add("worker.listen", "%w", err)
	}
	configs.CheckAllowedHosts(&f, c.Auth.AllowedHosts)
	c.TLS.Check(&f)
	f.OneOf("store", c.Store, "embedded", "mongodb")
	if c.Store == "mongodb" {
		f = append(f, c.MongoDB.faults()...)
	}
	if c.DataDir == "" {
		f.Add("data_dir", `"": want a folder`)
	}
	if c.UserAgent == "" || strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		f.Add("user_agent", "%q: want visible ASCII characters, such as mycrawler (+https://example.com/contact)", c.UserAgent)
	}
	if _, err := address.ParseServices("proxies.allowed", c.Proxies.Allowed); err != nil {
		f = append(f, err)
	}
	if c.Filter.URL != "" && !webURL(c.Filter.URL) {
		f.Add("filter.url", "want the URL of a urifilter daemon, such as http://127.0.0.1:8000") // it may have a password
	}
	f.AtLeast("dispatch.every", c.Dispatch.Every, time.Second)
	f.Between("dispatch.ready", c.Dispatch.Ready, 1, 1_000_000)
	f.Between("worker.concurrency", c.Worker.Concurrency, 1, 10_000)
	f.AtLeast("worker.lease", c.Worker.Lease, 10*time.Second)
	for i, lane := range c.Worker.Lanes {
		f.OneOf(fmt.Sprintf("worker.lanes[%d]", i), lane, "normal", "urgency", "foreign")
	}
	if len(c.Worker.Lanes) == 0 {
		f.Add("worker.lanes", "empty: want some of normal, urgency, foreign")
	}
	f.Between("browser.pages", c.Browser.Pages, 1, 100)
	if least := 256 * configs.MiB; c.Browser.Memory < least {
		f.Add("browser.memory", "%s: want %s or more", c.Browser.Memory, least)
	}
	f.Between("script.processes", c.Script.Processes, 1, 1000)
	if s := c.Script; s.Python != "" && !filepath.IsAbs(s.Python) {
		f.Add("script.python", "%q: want a whole path, such as /usr/bin/python3", s.Python)
	}
	if m := c.Script.Memory; m < 128*configs.MiB || m > 16*configs.GiB {
		f.Add("script.memory", "%s: want 128MiB to 16GiB", m)
	}
	if cpu := c.Script.CPU; cpu < time.Second || cpu > 10*time.Minute || cpu%time.Second != 0 {
		f.Add("script.cpu", "%s: want 1s to 10m0s in whole seconds", cpu)
	}
	c.Report.check(&f)
	f = append(f, c.Redis.faults()...)
	f.AtLeast("keep_logs", c.KeepLogs, 0)
	if c.Limits.JobBytes < configs.KiB || c.Limits.JobBytes > configs.GiB {
		f.Add("limits.job_bytes", "%s: want %s to %s", c.Limits.JobBytes, configs.KiB, configs.GiB)
	}
	f.AtLeast("limits.header_timeout", c.Limits.HeaderTimeout, time.Millisecond)
	f.AtLeast("limits.body_timeout", c.Limits.BodyTimeout, time.Millisecond)
	configs.CheckConnections(&f, c.Limits.Connections)
	f.AtLeast("shutdown_timeout", c.ShutdownTimeout, time.Millisecond)
	c.Log.Check(&f)
	return errors.Join(f...)
}

func (r Report) check(f *fault.List) {
	if r.Webhook != "" && !webURL(r.Webhook) {
		f.Add("report.webhook", "want a URL, such as https://chat.example.com/hooks/crawl") // it may be a secret
	}
	if r.DSN != "" && !validDSN(r.DSN) { // it has a key
		f.Add("report.dsn", "want https://KEY@HOST/PROJECT, with the number of the project, as the service gives it out")
	}
	if r.Webhook == "" && r.WebhookTokenFile != "" {
		f.Add("report.webhook_token_file", "%q: without a report.webhook", r.WebhookTokenFile)
	}
	f.OneOf("report.mail_tls", r.MailTLS, "starttls", "tls", "none")
	if r.MailServer == "" {
		for key, value := range map[string]string{"mail_from": r.MailFrom, "mail_user": r.MailUser, "mail_password_file": r.MailPasswordFile} {
			if value != "" {
				f.Add("report."+key, "%q: without a report.mail_server", value)
			}
		}
		return
	}
	if err := address.Check(r.MailServer); err != nil {
		f.Add("report.mail_server", "%w", err)
	}
	if _, err := mail.ParseAddress(r.MailFrom); err != nil {
		f.Add("report.mail_from", "%q: want an address, such as crawl@example.com", r.MailFrom)
	}
	if (r.MailUser == "") != (r.MailPasswordFile == "") {
		f.Add("report", "mail_user %q and mail_password_file %q: want both or neither", r.MailUser, r.MailPasswordFile)
	}
}

// webURL tells whether a text is a URL with a host that is called by HTTP.
func webURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// validDSN tells whether a text is a DSN of an error service: the URL of a project, with a key and no password.
func validDSN(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User.Username() == "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	if _, has := u.User.Password(); has {
		return false
	}
	project := u.Path[strings.LastIndex(u.Path, "/")+1:]
	return project != "" && strings.Trim(project, "0123456789") == ""
}

// faults returns what is wrong with the section, if the store is mongodb.
func (m MongoDB) faults() []error {
	uri := m.URI
	switch {
	case m.URI != "" && m.URIFile != "":
		return []error{errors.New("mongodb.uri and mongodb.uri_file: want one of them")}
	case m.URI == "" && m.URIFile == "":
		return []error{errors.New(`mongodb.uri: "": store: mongodb needs it, such as mongodb://user:password@host:27017/?replicaSet=rs0, or mongodb.uri_file`)}
	case m.URI == "":
		uri = "mongodb://in.the.file/"
	}
	return configs.CheckMongoDB("mongodb", uri, m.Database, m.CallTLS)
}

// Given tells whether there is a Redis.
func (r Redis) Given() bool { return r.URL != "" || len(r.Addrs) > 0 }

// faults returns what is wrong with the section.
func (r Redis) faults() []error {
	faults := r.Faults("redis")
	if u, err := url.Parse(r.URL); r.URL != "" && (err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss") {
		return append(faults, errors.New("redis.url: want redis:// or rediss://, host and port, such as redis://127.0.0.1:6379")) // it may have a password
	}
	for _, other := range []struct {
		key   string
		given bool
	}{{"addrs", len(r.Addrs) > 0}, {"username", r.Username != ""}, {"db", r.DB != 0}, {"master_name", r.MasterName != ""}, {"tls", r.TLS}} {
		switch {
		case other.given && r.URL != "":
			faults = append(faults, errors.New("redis.url and redis."+other.key+": want one of them: the URL says it, too"))
		case other.given && len(r.Addrs) == 0:
			faults = append(faults, errors.New("redis."+other.key+": redis.addrs names no server"))
		}
	}
	return faults
}
