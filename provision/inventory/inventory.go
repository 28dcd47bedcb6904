// Package inventory holds the operator's description of the servers: their names, logins and roles,
// and what to install on them. It reads configs/hosts.yaml strictly, or the variable
// URIFILTER_HOSTS, and chooses hosts. The field comments and configs/hosts.example.yaml are the
// manual. It opens no connection.
package inventory

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/systemd"
)

// The roles of a host.
const (
	RoleFilter  = "filter"  // runs the daemon
	RoleRedis   = "redis"   // runs the Redis that the filter hosts share
	RoleMySQL   = "mysql"   // runs the MariaDB of filters with store: mysql
	RoleMongoDB = "mongodb" // runs the archive
)

// Inventory is a whole file. One from Open is valid and complete: missing values have their
// defaults, hosts have the values of defaults, paths are absolute.
type Inventory struct {
	// Defaults is the login of hosts that do not define their own.
	Defaults Login `yaml:"defaults"`
	// Hosts are the servers, in the order in which they are changed.
	Hosts []Host `yaml:"hosts"`

	// SettingsFile is a file in the format of urifilter.yaml with the daemon's settings for all
	// hosts. Default "": none.
	SettingsFile string `yaml:"settings_file"`
	// Settings are keys of urifilter.yaml for all hosts; they override SettingsFile, and those of a
	// host override them. Values that the toolkit knows (the addresses of Redis and the archive, and
	// their passwords) are added if missing. Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// TokensFile is a tokens file on this machine (mode 0600), pushed to filter hosts with digests
	// in place of the tokens. Default "": hosts admit only the toolkit itself, and listen only on a
	// loopback address.
	TokensFile string `yaml:"tokens_file"`

	// Downloader describes the program on hosts with the roles of the downloader. SettingsFile,
	// Settings, TokensFile, Release.Binary and Service of the inventory are the filter's.
	Downloader Own `yaml:"downloader"`

	Release  Release  `yaml:"release"`
	Service  Service  `yaml:"service"`
	Redis    Redis    `yaml:"redis"`
	MySQL    MySQL    `yaml:"mysql"`
	MongoDB  MongoDB  `yaml:"mongodb"`
	TLS      TLS      `yaml:"tls"`
	Packages Packages `yaml:"packages"`
	Schedule Schedule `yaml:"schedule"`
	Fleet    Fleet    `yaml:"fleet"`

	programs []string // the roles of hosts that run a program; nil: filter

	path string // the file, "" for none
	from string // for messages: the file, or the variable
}

// Path is the file of the inventory, "" for none.
func (i *Inventory) Path() string { return i.path }

// From is the origin of the hosts, for messages: a file name, or URIFILTER_HOSTS.
func (i *Inventory) From() string { return i.from }

// Login says how to log in. Missing values come from ~/.ssh/config, as with ssh. It holds no
// password, as the file may be in a repository: passwords are in environment variables, or entered
// on a terminal.
type Login struct {
	// User to log in as; one that is not root uses sudo. Default "": as ~/.ssh/config
	// says, or the name of the user here.
	User string `yaml:"user"`
	// Port of sshd, 1 to 65535. Default 0: as ~/.ssh/config says, or 22.
	Port int `yaml:"port"`
	// IdentityFile is a private key, tried before those of the agent. Default "": as
	// ~/.ssh/config says, then the agent's keys, then ~/.ssh/id_ed25519, id_ecdsa, id_rsa.
	IdentityFile string `yaml:"identity_file"`
	// KnownHosts is the file of trusted host keys. Default "": as ~/.ssh/config says, or
	// ~/.ssh/known_hosts.
	KnownHosts string `yaml:"known_hosts"`
	// Bastion is the host, or the chain of hosts, to connect through: user@host:port. "none": none,
	// whatever the defaults say. Default "": as ProxyJump of ~/.ssh/config says.
	Bastion Bastion `yaml:"bastion"`
	// Sudo is auto (sudo where the user is not root; it may ask for a password) or none
	// (never: the user must be root). Default "": auto.
	Sudo string `yaml:"sudo"`
	// PasswordEnv names the variable that holds the login password, for hosts that take
	// no key. Default "": URIFILTER_SSH_PASSWORD.
	PasswordEnv string `yaml:"password_env"`
	// SudoPasswordEnv names the variable with the password for sudo. Default "":
	// URIFILTER_SUDO_PASSWORD.
	SudoPasswordEnv string `yaml:"sudo_password_env"`
	// HostKeys is strict (a host whose key is not in the known hosts is refused) or accept-new (the
	// key of a host seen for the first time is trusted, shown, and stored; an attacker in between
	// would be trusted, too). A changed key is always refused. Default "": strict.
	HostKeys string `yaml:"host_keys"`
}

// Host is a server.
type Host struct {
	// Name is the host's name here: letters, digits, - _ . and unique. Default "": the address.
	Name string `yaml:"name"`
	// Address is a host name, an IP address, or a Host of ~/.ssh/config. Default "": the
	// name.
	Address string `yaml:"address"`
	// PrivateAddress is where the other hosts reach this one, and where its servers listen for them:
	// an IP address, for instance on a private network behind NAT. Default "": the address to which
	// SSH connects.
	PrivateAddress string `yaml:"private_address"`
	// Roles are any of filter, downloader, master, worker, redis, mysql and mongodb; master, redis,
	// mysql and mongodb have at most one host each. Without a redis host each filter host has its
	// own store. Default [filter].
	Roles []string `yaml:"roles"`

	Login `yaml:",inline"`

	// Settings are keys of urifilter.yaml for only this host. Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// Binary is a ready program for this host in place of release.binary. Default "".
	Binary string `yaml:"binary"`
	// Downloader overrides the downloader section of the inventory on this host.
	Downloader HostOwn `yaml:"downloader"`
}

// Release controls the program's releases on filter hosts.
type Release struct {
	// Keep is how many releases a host retains, 2 or more. Default 5.
	Keep int `yaml:"keep"`
	// Binary is a ready program to push; in it {arch} stands for the host's amd64 or arm64. Default
	// "": built from the sources here.
	Binary string `yaml:"binary"`
}

// Redis describes the Redis server of the host with this role.
type Redis struct {
	// Package of the host's distribution. Default "": redis-server.
	Package string `yaml:"package"`
	// Port to listen on. Default 6379.
	Port int `yaml:"port"`
	// Bind are addresses to listen on beside loopback. Default []: the host's address
	// where other hosts have the role filter.
	Bind []string `yaml:"bind"`
	// TLS makes daemons call it only by TLS, with certificates that the toolkit makes and renews, or
	// yours: see TLS of the inventory. Default false.
	TLS bool `yaml:"tls"`
	// TLSPort is its port for TLS; Port is closed once every filter host uses TLS. Default 6380.
	TLSPort int `yaml:"tls_port"`
	// MaxMemory limits its memory, in the format of redis.conf: 4gb. At the limit writes are refused
	// and nothing is evicted. Default "": no limit.
	MaxMemory string `yaml:"maxmemory"`
	// AppendFsync is everysec (a power cut loses up to a second) or always. Default
	// everysec.
	AppendFsync string `yaml:"appendfsync"`
	// Adopt takes over a server on that host that contains data of others. If it has no password, it
	// gets one, which those others must then use. Default false: such a server is left alone, and
	// the run ends.
	Adopt bool `yaml:"adopt"`
}

// MySQL describes the MariaDB server of the host with this role.
type MySQL struct {
	// Port to listen on. Default 3306.
	Port int `yaml:"port"`
	// Bind are addresses to listen on beside loopback. Default []: the host's address
	// where other hosts have the role filter.
	Bind []string `yaml:"bind"`
	// Adopt configures a server on that host that contains databases of others, and restarts it.
	// Default false: such a server is left alone, and the run ends.
	Adopt bool `yaml:"adopt"`
}

// MongoDB is the archive.
type MongoDB struct {
	// URI is the address of a server that the toolkit does not manage: mongodb://...; then no host
	// has the role mongodb. A password in it is better in URIEnv. Default "".
	URI string `yaml:"uri"`
	// URIEnv names a variable that holds the URI. Default "".
	URIEnv string `yaml:"uri_env"`
	// Flavor is mongodb (by MongoDB Inc., for the systems it supports) or ferretdb (the same
	// protocol, Apache-2.0, one program). Default mongodb.
	Flavor string `yaml:"flavor"`
	// Version is the series of flavor mongodb: 8.0. If another series is installed, it is left
	// alone. Default 8.0.
	Version string `yaml:"version"`
	// Port to listen on. Default 27017.
	Port int `yaml:"port"`
	// Bind are addresses to listen on beside loopback. Default []: the host's address
	// where other hosts have the role filter.
	Bind []string `yaml:"bind"`
	// TLS makes daemons call it only by TLS, at Port, as that of Redis. Default false.
	TLS bool `yaml:"tls"`
	// Repository provides the packages. Default: that of MongoDB Inc. for the flavor mongodb, those
	// of the host for ferretdb.
	Repository Repository `yaml:"repository"`
	// Unit is the name of the systemd unit. Default "": mongod or ferretdb.
	Unit string `yaml:"unit"`
	// Bundle is a folder or .tar here with .deb files and SHA256SUMS, installed in place
	// of a repository, for hosts without a network. Default "": none.
	Bundle string `yaml:"bundle"`
}

// Repository is a repository of packages, a mirror for instance.
type Repository struct {
	// URL is the address without dists/. Default "".
	URL string `yaml:"url"`
	// Suite, for instance bookworm/mongodb-org/8.0; {codename} stands for that of the host. Default
	// "".
	Suite string `yaml:"suite"`
	// Component, for instance main. Default "".
	Component string `yaml:"component"`
	// KeyURL is where the host fetches the key that signs it. Default "".
	KeyURL string `yaml:"key_url"`
	// KeyFile is that key in a file here. Default "".
	KeyFile string `yaml:"key_file"`
	// Packages to install. Default []: mongodb-org, or ferretdb.
	Packages []string `yaml:"packages"`
}

// TLS is the source of the certificates for redis.tls and mongodb.tls.
type TLS struct {
	// Dir is the folder here of the authority that the toolkit makes, with its key. Default "":
	// .urifilter/tls in the folder in which targets run.
	Dir string `yaml:"dir"`
	// Days is how long a certificate is valid, 2 or more. A deployment renews it when a third of
	// that time is left. Default 365.
	Days int `yaml:"days"`
	// CAFile is your authority; CertFile and KeyFile are your certificates and keys, in PEM, in
	// place of the toolkit's; in the last two {host} stands for the name of the host. Default "":
	// the toolkit makes them.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// Packages controls how hosts get packages.
type Packages struct {
	// Update refreshes the package lists before something is installed. Default true.
	Update bool `yaml:"update"`
	// Proxy is an HTTP proxy for apt: http://proxy:3128. Default "": that of the host.
	Proxy string `yaml:"proxy"`
	// Bundle is a folder or .tar here with .deb files and SHA256SUMS for all packages, for hosts
	// without a network. Default "": none.
	Bundle string `yaml:"bundle"`
}

// Schedule is the monthly writeback to the archive.
type Schedule struct {
	// Kind is crontab (/etc/cron.d/urifilter), timer (of systemd; it catches up on runs missed while
	// the host was off) or none. Default crontab.
	Kind string `yaml:"kind"`
	// When, in the five fields of a crontab: minute, hour, day, month, weekday.
	// Default 0 0 1 * *: midnight on the first day of each month.
	When string `yaml:"when"`
}

// Fleet is how many hosts are changed at once.
type Fleet struct {
	// Canary is how many filter hosts are changed first, separately; 0: none. Default 1.
	Canary int `yaml:"canary"`
	// Batch is how many of the others are changed at a time: a number, or a share such as 25%.
	// Default 25%.
	Batch string `yaml:"batch"`
	// Parallel is how many hosts are worked on at once, 1 or more. Default 8.
	Parallel int `yaml:"parallel"`
	// HealthTimeout is how long a daemon may take to become healthy after a start; one that restores
	// large bit-maps needs more. Default 2m.
	HealthTimeout time.Duration `yaml:"health_timeout"`
	// Bake is how long a started and healthy daemon must run without a crash: after the canary,
	// before the other hosts are changed, and after the last batch, before its release counts as
	// healthy. 0: it is not watched. Default 30s.
	Bake time.Duration `yaml:"bake"`
}

// Default returns an inventory without hosts.
func Default() *Inventory {
	return &Inventory{
		Release:    Release{Keep: 5},
		Service:    Service{User: "urifilter", Group: "urifilter"},
		Downloader: Own{Service: Service{User: "uridownloader", Group: "uridownloader"}},
		Redis:      Redis{Port: 6379, TLSPort: 6380, AppendFsync: "everysec"},
		MySQL:      MySQL{Port: 3306},
		MongoDB:    MongoDB{Flavor: "mongodb", Version: "8.0", Port: 27017},
		TLS:        TLS{Days: 365},
		Packages:   Packages{Update: true},
		Schedule:   Schedule{Kind: "crontab", When: "0 0 1 * *"},
		Fleet:      Fleet{Canary: 1, Batch: "25%", Parallel: 8, HealthTimeout: 2 * time.Minute, Bake: 30 * time.Second},
	}
}

// The sections of the inventory for one program each.
const (
	SectionFilter     = "filter"     // top-level keys of the inventory
	SectionDownloader = "downloader" // the key of that name
)

// Own is the part of the inventory about one program on all hosts.
type Own struct {
	// SettingsFile is a file in the program's own format with settings for all hosts. Default "":
	// none.
	SettingsFile string `yaml:"settings_file"`
	// Settings are keys of that file; they override SettingsFile, and those of a host override them.
	// Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// TokensFile is a tokens file on this machine (mode 0600), pushed to the program's hosts
	// with digests in place of the tokens. Default "": tokens.NAME.yaml beside the
	// inventory, with NAME for the section, if it exists.
	TokensFile string `yaml:"tokens_file"`
	// Binary is a ready program to push; in it {arch} stands for the host's amd64 or arm64. Default
	// "": built from the sources here.
	Binary string `yaml:"binary"`
	// Service is how systemd runs it.
	Service Service `yaml:"service"`
}

// HostOwn is the part of the inventory about one program on one host.
type HostOwn struct {
	// Settings are keys of the program's settings for only this host. Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// Binary is a ready program for this host in place of the general one. Default "".
	Binary string `yaml:"binary"`
}

// Service is how systemd runs the daemon.
type Service struct {
	// User and Group run the daemon; they are created if missing. Not root. Default urifilter, or
	// uridownloader.
	User  string `yaml:"user"`
	Group string `yaml:"group"`
	// MemoryMax is how much memory the daemon may use before the system kills it, in systemd's
	// format: 4G, 80%. It needs 3.2 MB per million items of capacity, plus a base. Default "": no
	// limit.
	MemoryMax string `yaml:"memory_max"`
	// OpenFiles is the limit of its open files and connections, 1024 or more. Default 0: that of the
	// unit, 262144.
	OpenFiles int `yaml:"open_files"`
}

// Own returns the part of the inventory about a section's program; empty if it has none. Keys of
// the section begin with prefix.
func (i *Inventory) Own(section string) (own Own, prefix string) {
	switch section {
	case SectionFilter:
		return Own{SettingsFile: i.SettingsFile, Settings: i.Settings, TokensFile: i.TokensFile, Binary: i.Release.Binary, Service: i.Service}, ""
	case SectionDownloader:
		return i.Downloader, SectionDownloader + "."
	}
	return Own{}, ""
}

// Own returns the host's part about a section's program.
func (h Host) Own(section string) HostOwn {
	switch section {
	case SectionFilter:
		return HostOwn{Settings: h.Settings, Binary: h.Binary}
	case SectionDownloader:
		return h.Downloader
	}
	return HostOwn{}
}

// sections returns all of them.
func sections() []string { return []string{SectionFilter, SectionDownloader} }

func (s Service) validate(f *faults, prefix string) {
	for key, name := range map[string]string{"user": s.User, "group": s.Group} {
		if !systemd.AccountName(name) {
			f.Add(prefix+key, "%q: want a name of a-z, 0-9, _ and -, 31 at most", name)
		}
		if name == "root" {
			f.Add(prefix+key, "root: want an account that may do less")
		}
	}
	if m := s.MemoryMax; m != "" {
		f.matches(prefix+"memory_max", m, memoryPattern, "a size such as 4G, or a share such as 80%")
	}
	if n := s.OpenFiles; n != 0 && n < 1024 {
		f.Add(prefix+"open_files", "%d: want 1024 or more, or 0 for what the unit has", n)
	}
}
