package inventory

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/configs/fault"
	"github.com/cr-clawer/urifilter/provision/crontab"
	"github.com/cr-clawer/urifilter/systemd"
)

// faults is a list to which the checks of an inventory add.
type faults struct{ fault.List }

func (f *faults) port(key string, port, least int) { f.Between(key, port, least, 65535) }

func (f *faults) matches(key, value, pattern, want string) {
	if !regexp.MustCompile(pattern).MatchString(value) {
		f.Add(key, "%q: want %s", value, want)
	}
}

// byTimer is the schedule.kind that uses systemd.
const byTimer = "timer"

const (
	packagePattern = `^[a-z0-9][a-z0-9+.-]*$`
	memoryPattern  = `^([0-9]+[KMGT]?|[0-9]{1,2}%|100%)$`
	redisPattern   = `^(?i)[1-9][0-9]*(b|kb?|mb?|gb?)?$`
	envPattern     = `^[A-Za-z_][A-Za-z0-9_]*$`
)

// Validate returns all faults joined, each naming its key, the value found and the values allowed.
// It checks only the inventory, not files or hosts that it names, nor the meaning of the settings.
func (i *Inventory) Validate() error {
	var f faults
	i.Defaults.validate(&f, "defaults.")
	i.validateHosts(&f)
	i.Redis.validate(&f)
	f.port("mysql.port", i.MySQL.Port, 1)
	f.binds("mysql.bind", i.MySQL.Bind)
	i.MongoDB.validate(&f)
	i.TLS.validate(&f)
	if i.MongoDB.External() && i.MongoDB.TLS {
		f.Add("mongodb.tls", "true: the server of mongodb.uri is not the toolkit's: say how it is called in settings: {mongodb: {tls: true, ...}}")
	}
	if i.MongoDB.External() && len(i.With(RoleMongoDB)) > 0 {
		f.Add("mongodb.uri", "it names an existing server, and host %s has the role mongodb: want only one of the two", i.With(RoleMongoDB)[0].Name)
	}
	if i.Release.Keep < 2 {
		f.Add("release.keep", "%d: want 2 or more, so that there is one to go back to", i.Release.Keep)
	}
	for _, section := range sections() {
		own, prefix := i.Own(section)
		own.Service.validate(&f, prefix+"service.")
	}
	if p := i.Packages.Proxy; p != "" {
		f.webAddress("packages.proxy", p)
	}
	f.OneOf("schedule.kind", i.Schedule.Kind, "crontab", byTimer, "none")
	if when, err := crontab.Parse(i.Schedule.When); err != nil {
		f.List = append(f.List, err) // it begins with schedule.when
	} else if i.Schedule.Kind == byTimer {
		if _, err := when.OnCalendar(); err != nil {
			f.List = append(f.List, err)
		}
	}
	i.Fleet.validate(&f)
	return errors.Join(f.List...)
}

func (l Login) validate(f *faults, key string) {
	if l.User != "" && !plainUser(l.User) {
		f.Add(key+"user", "%q: want the name of a user", l.User)
	}
	f.port(key+"port", l.Port, 0)
	f.OneOf(key+"sudo", l.Sudo, "", "auto", "none")
	f.OneOf(key+"host_keys", l.HostKeys, "", "strict", "accept-new")
	for k, name := range map[string]string{"password_env": l.PasswordEnv, "sudo_password_env": l.SudoPasswordEnv} {
		if name != "" && !regexp.MustCompile(envPattern).MatchString(name) {
			// It may be the password itself, which must not be shown.
			f.Add(key+k, "want the name of a variable that holds the password, such as %s", "WEB_SUDO_PASSWORD")
		}
	}
	if !l.Bastion.None() && slices.ContainsFunc(l.Bastion, func(h Hop) bool { return h.Host == "none" }) {
		f.Add(key+"bastion", "none stands beside others: want it alone")
	}
}

func (i *Inventory) validateHosts(f *faults) {
	if len(i.Hosts) == 0 {
		f.Add("hosts", "none: want one at least")
	}
	names, at := map[string]int{}, map[string]int{}
	for n, h := range i.Hosts {
		key := fmt.Sprintf("hosts[%d].", n)
		switch first, twice := names[h.Name]; {
		case h.Name == "":
			f.Add(key+"name", "want a name or an address")
			continue
		case strings.Trim(h.Name, letters+"0123456789-_.:") != "" || strings.HasPrefix(h.Name, "-") || strings.HasPrefix(h.Name, "role:"):
			f.Add(key+"name", "%q: want letters, digits, - _ and .", h.Name)
		case twice:
			f.Add(key+"name", "%q: is that of hosts[%d]: want each once", h.Name, first)
		}
		names[h.Name] = n
		if !plainAddress(h.Address) {
			f.Add(key+"address", "%q: want a host name or an IP address; the user and the port have keys of their own", h.Address)
		}
		if ip := net.ParseIP(h.PrivateAddress); h.PrivateAddress != "" && (ip == nil || ip.IsLoopback() || ip.IsUnspecified()) {
			f.Add(key+"private_address", "%q: want the IP address at which the other hosts reach this one", h.PrivateAddress)
		}
		if first := slices.IndexFunc(i.Hosts[:n], func(o Host) bool { return h.PrivateAddress != "" && o.PrivateAddress == h.PrivateAddress }); first >= 0 {
			f.Add(key+"private_address", "%s: is that of hosts[%d]: want each once", h.PrivateAddress, first)
		}
		h.Login.validate(f, key)
		where := Hop{Host: h.Address, Port: h.Port}.String() + " through " + h.Bastion.String()
		if first, twice := at[where]; twice && names[h.Name] == n {
			f.Add(key+"address", "%s: is that of hosts[%d]: want each once", h.Address, first)
		} else {
			at[where] = n
		}
		if len(h.Roles) == 0 {
			f.Add(key+"roles", "none: want %s", strings.Join(i.roles(), ", "))
		}
		for m, role := range h.Roles {
			f.OneOf(fmt.Sprintf("%sroles[%d]", key, m), role, i.roles()...)
			if slices.Contains(h.Roles[:m], role) {
				f.Add(fmt.Sprintf("%sroles[%d]", key, m), "%s: appears twice", role)
			}
		}
	}
	for _, role := range []string{RoleRedis, RoleMySQL, RoleMongoDB} {
		if with := i.With(role); len(with) > 1 {
			f.Add("hosts", "%s and %s have the role %s: want one, as each would hold a part only", with[0].Name, with[1].Name, role)
		}
	}
}

// roles returns the roles that a host may have.
func (i *Inventory) roles() []string {
	programs := i.programs
	if programs == nil {
		programs = []string{RoleFilter}
	}
	return append(slices.Clone(programs), RoleRedis, RoleMySQL, RoleMongoDB)
}

func (r Redis) validate(f *faults) {
	if r.Package != "" {
		f.matches("redis.package", r.Package, packagePattern, "the name of a package")
	}
	f.port("redis.port", r.Port, 1)
	f.port("redis.tls_port", r.TLSPort, 1)
	if r.TLS && r.TLSPort == r.Port {
		f.Add("redis.tls_port", "%d: is redis.port: want another, as both are open until every filter host calls by TLS", r.TLSPort)
	}
	f.binds("redis.bind", r.Bind)
	if r.MaxMemory != "" {
		f.matches("redis.maxmemory", r.MaxMemory, redisPattern, "a size as redis.conf has it, such as 4gb")
	}
	f.OneOf("redis.appendfsync", r.AppendFsync, "everysec", "always")
}

func (t TLS) validate(f *faults) {
	if t.Days < 2 {
		f.Add("tls.days", "%d: want 2 or more", t.Days)
	}
	if own := t.CAFile != ""; own != (t.CertFile != "") || own != (t.KeyFile != "") {
		f.Add("tls.ca_file", "%q, cert_file %q and key_file %q: want all three for certificates of your own, or none", t.CAFile, t.CertFile, t.KeyFile)
	}
}

func (m MongoDB) validate(f *faults) {
	f.OneOf("mongodb.flavor", m.Flavor, "mongodb", "ferretdb")
	f.matches("mongodb.version", m.Version, `^[0-9]+\.[0-9]+$`, `a series such as "8.0"`)
	f.port("mongodb.port", m.Port, 1)
	f.binds("mongodb.bind", m.Bind)
	if m.Unit != "" && !systemd.UnitName(m.Unit) {
		f.Add("mongodb.unit", "%q: want the name of a systemd unit", m.Unit)
	}
	if m.URI != "" && m.URIEnv != "" {
		f.Add("mongodb.uri", "mongodb.uri_env is given too: want one of them")
	}
	if m.URIEnv != "" && !regexp.MustCompile(envPattern).MatchString(m.URIEnv) {
		f.Add("mongodb.uri_env", "want the name of a variable that holds the URI")
	}
	if m.URI != "" {
		c := configs.Default()
		c.MongoDB.URI = m.URI
		if err := c.Validate(); err != nil {
			f.List = append(f.List, err) // it begins with mongodb.uri
		}
	}
	r := m.Repository
	if r.URL != "" {
		f.webAddress("mongodb.repository.url", r.URL)
		if r.Suite == "" {
			f.Add("mongodb.repository.suite", `"": want the suite of the repository`)
		}
		if r.KeyURL == "" && r.KeyFile == "" {
			f.Add("mongodb.repository", "no key_url and no key_file: want the key that signs it")
		}
	} else if r.Suite != "" || r.Component != "" || r.KeyURL != "" || r.KeyFile != "" {
		f.Add("mongodb.repository.url", `"": want the repository's address, or no other key of it`)
	}
	if r.KeyURL != "" {
		f.webAddress("mongodb.repository.key_url", r.KeyURL)
		if r.KeyFile != "" {
			f.Add("mongodb.repository.key_url", "key_file is given too: want one of them")
		}
	}
	for _, text := range []struct{ key, value string }{{"suite", r.Suite}, {"component", r.Component}} {
		if strings.ContainsAny(text.value, " \t\n#\"'") {
			f.Add("mongodb.repository."+text.key, "%q: want a word", text.value)
		}
	}
	for n, p := range r.Packages {
		f.matches(fmt.Sprintf("mongodb.repository.packages[%d]", n), p, packagePattern, "the name of a package")
	}
}

func (f *faults) binds(key string, all []string) {
	for n, one := range all {
		if _, wrong := address.Bind([]string{one}); len(wrong) > 0 {
			f.Add(fmt.Sprintf("%s[%d]", key, n), "%s", strings.TrimPrefix(wrong[0], "bind "))
		}
	}
}

// webAddress requires an http or https address that reveals no password.
func (f *faults) webAddress(key, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(text, " \t\n\"'"):
		f.Add(key, "want an address such as https://mirror.example/debian")
	case u.User != nil:
		f.Add(key, "it holds a user: want one that needs none, as it would stand in files that everybody may read")
	}
}

func (o Fleet) validate(f *faults) {
	if o.Canary < 0 {
		f.Add("fleet.canary", "%d: want 0 or more", o.Canary)
	}
	share, isShare := strings.CutSuffix(o.Batch, "%")
	n, err := strconv.Atoi(share)
	if o.Batch != "" && (err != nil || n < 1 || isShare && n > 100) {
		f.Add("fleet.batch", `%q: want a number of hosts, or a share such as "25%%"`, o.Batch)
	}
	if o.Parallel < 1 {
		f.Add("fleet.parallel", "%d: want 1 or more", o.Parallel)
	}
	if o.HealthTimeout < time.Second {
		f.Add("fleet.health_timeout", "%s: want 1s or more", o.HealthTimeout)
	}
	if o.Bake < 0 {
		f.Add("fleet.bake", "%s: want 0s or more", o.Bake)
	}
}

// External reports whether the archive is a server that the toolkit does not manage.
func (m MongoDB) External() bool { return m.URI != "" || m.URIEnv != "" }

// named prefixes each fault with the origin of the inventory.
func (i *Inventory) named(err error) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	out := make([]error, len(list))
	for n, fault := range list {
		out[n] = fmt.Errorf("%s: %w", i.from, fault)
	}
	return errors.Join(out...)
}
