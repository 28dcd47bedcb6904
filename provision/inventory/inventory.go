// Package inventory holds what the operator says about the servers: which there are,
// how to log in, which roles they have and what shall be installed on them. It reads
// configs/hosts.yaml strictly, or the variable URIFILTER_HOSTS, and chooses hosts. The
// field comments and configs/hosts.example.yaml are the manual. It opens no connection.
package inventory

import (
	"time"

	"go.yaml.in/yaml/v4"
)

// The roles of a host.
const (
	RoleFilter  = "filter"  // runs the daemon
	RoleRedis   = "redis"   // runs the Redis that the filter hosts share
	RoleMySQL   = "mysql"   // runs the MariaDB of filters with store: mysql
	RoleMongoDB = "mongodb" // runs the archive
)

// Inventory is a whole file. One from Open is complete (what the file leaves out has its
// default, hosts have what defaults say, paths are absolute) and valid.
type Inventory struct {
	// Defaults say how to log in to hosts that do not say it themselves.
	Defaults Login `yaml:"defaults"`
	// Hosts are the servers, in the order in which they are changed.
	Hosts []Host `yaml:"hosts"`

	// SettingsFile is a file in the form of urifilter.yaml with the daemon's settings
	// for all hosts. Default "": none.
	SettingsFile string `yaml:"settings_file"`
	// Settings are keys of urifilter.yaml for all hosts; they go before SettingsFile, and
	// those of a host go before them. What the toolkit knows itself (where Redis and the
	// archive are, with their passwords) is filled in where nobody gives it. Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// TokensFile is a tokens file on this machine (mode 0600), pushed to filter hosts
	// with digests in place of the tokens. Default "": hosts let nobody in but the
	// toolkit itself, and listen on a loopback address only.
	TokensFile string `yaml:"tokens_file"`

	// Downloader is what runs on hosts with the roles of the downloader. SettingsFile,
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

	programs []string // the roles of hosts that run one; nil: filter

	path string // the file, "" for none
	from string // for people: the file, or the variable
}

// Path is the file that the inventory was read from, "" for none.
func (i *Inventory) Path() string { return i.path }

// From says for people where the hosts come from: a file's name, or URIFILTER_HOSTS.
func (i *Inventory) From() string { return i.from }

// Login says how to log in. What is left out is taken from ~/.ssh/config, as ssh does.
// No password stands here: the file is for a repository. Passwords are in variables of
// the environment, or are asked for on a terminal.
type Login struct {
	// User to log in as; one that is not root uses sudo. Default "": as ~/.ssh/config
	// says, or the name of the user here.
	User string `yaml:"user"`
	// Port of sshd, 1 to 65535. Default 0: as ~/.ssh/config says, or 22.
	Port int `yaml:"port"`
	// IdentityFile is a private key, tried before those of the agent. Default "": as
	// ~/.ssh/config says, then the agent's keys, then ~/.ssh/id_ed25519, id_ecdsa, id_rsa.
	IdentityFile string `yaml:"identity_file"`
	// KnownHosts is the file of host keys that are trusted. Default "": as ~/.ssh/config
	// says, or ~/.ssh/known_hosts.
	KnownHosts string `yaml:"known_hosts"`
	// Bastion is the host, or the list of hosts one behind the other, through which to
	// connect: user@host:port. "none": none, whatever the defaults say. Default "": as
	// ProxyJump of ~/.ssh/config says.
	Bastion Bastion `yaml:"bastion"`
	// Sudo is auto (sudo where the user is not root; it may ask for a password) or none
	// (never: the user must be root). Default "": auto.
	Sudo string `yaml:"sudo"`
	// PasswordEnv names the variable that holds the login password, for hosts that take
	// no key. Default "": URIFILTER_SSH_PASSWORD.
	PasswordEnv string `yaml:"password_env"`
	// SudoPasswordEnv names the variable that holds the password that sudo asks for.
	// Default "": URIFILTER_SUDO_PASSWORD.
	SudoPasswordEnv string `yaml:"sudo_password_env"`
	// HostKeys is strict (a host whose key is not in the known hosts is refused) or
	// accept-new (the key of a host seen for the first time is trusted, told, and remembered;
	// whoever sits between is trusted too). A key that has changed is always refused.
	// Default "": strict.
	HostKeys string `yaml:"host_keys"`
}

// Host is a server.
type Host struct {
	// Name is how people call it here: letters, digits, - _ . and unique. Default "":
	// the address.
	Name string `yaml:"name"`
	// Address is a host name, an IP address, or a Host of ~/.ssh/config. Default "": the
	// name.
	Address string `yaml:"address"`
	// Roles are any of filter, downloader, master, worker, redis, mysql and mongodb; at most one
	// host is master, and each of the last three. Without a redis host each filter host has a store of its own. Default
	// [filter].
	Roles []string `yaml:"roles"`

	Login `yaml:",inline"`

	// Settings are keys of urifilter.yaml for this host alone. Nil: none.
	Settings *yaml.Node `yaml:"settings"`
	// Binary is a ready program for this host in place of release.binary. Default "".
	Binary string `yaml:"binary"`
	// Downloader is what differs from downloader of the inventory on this host.
	Downloader HostOwn `yaml:"downloader"`
}

// Release is what happens to the program on filter hosts.
type Release struct {
	// Keep is how many releases stay on a host, 2 or more. Default 5.
	Keep int `yaml:"keep"`
	// Binary is a ready program to be pushed; {arch} in it stands for amd64 or arm64, as
	// each host needs it. Default "": built from the sources here.
	Binary string `yaml:"binary"`
}

// Redis is the Redis of the host that has this role.
type Redis struct {
	// Package of the host's distribution. Default "": redis-server.
	Package string `yaml:"package"`
	// Port to listen on. Default 6379.
	Port int `yaml:"port"`
	// Bind are addresses to listen on beside loopback. Default []: the host's address
	// where other hosts have the role filter.
	Bind []string `yaml:"bind"`
	// TLS has daemons call it by TLS alone, with certificates that the toolkit makes and
	// renews, or yours: see TLS of the inventory. Default false.
	TLS bool `yaml:"tls"`
	// TLSPort is where it speaks TLS; Port is closed when every filter host does.
	// Default 6380.
	TLSPort int `yaml:"tls_port"`
	// MaxMemory bounds its memory, as redis.conf writes it: 4gb. When it is reached,
	// writes are refused and nothing is evicted. Default "": no bound.
	MaxMemory string `yaml:"maxmemory"`
	// AppendFsync is everysec (a power cut loses up to a second) or always. Default
	// everysec.
	AppendFsync string `yaml:"appendfsync"`
	// Adopt takes over a server on that host in which others have data: with its password,
	// if it has one, else it gets one, and those others must then use it. Default false:
	// such a server is left alone, and the run ends.
	Adopt bool `yaml:"adopt"`
}

// MySQL is the MariaDB of the host that has this role.
type MySQL struct {
	// Port to listen on. Default 3306.
	Port int `yaml:"port"`
	// Bind are addresses to listen on beside loopback. Default []: the host's address
	// where other hosts have the role filter.
	Bind []string `yaml:"bind"`
	// Adopt sets up a server on that host in which others have databases, and restarts it.
	// Default false: such a server is left alone, and the run ends.
	Adopt bool `yaml:"adopt"`
}

// MongoDB is the archive.
type MongoDB struct {
	// URI is that of a server which the toolkit does not manage: mongodb://...; no host
	// has the role mongodb then. A password in it is better in URIEnv. Default "".
	URI string `yaml:"uri"`
	// URIEnv names a variable that holds the URI. Default "".
	URIEnv string `yaml:"uri_env"`
	// Flavor is mongodb (by MongoDB Inc., for the systems that they support) or ferretdb
	// (the same protocol, Apache-2.0, one program). Default mongodb.
	Flavor string `yaml:"flavor"`
	// Version is the series of flavor mongodb: 8.0. Another series that is installed is
	// left alone. Default 8.0.
	Version string `yaml:"version"`
	// Port to listen on. Default 27017.
	Port int `yaml:"port"`
	// Bind are addresses to listen on beside loopback. Default []: the host's address
	// where other hosts have the role filter.
	Bind []string `yaml:"bind"`
	// TLS has daemons call it, at Port, by TLS alone, as that of Redis. Default false.
	TLS bool `yaml:"tls"`
	// Repository has the packages. Default: that of MongoDB Inc. for the flavor mongodb,
	// those that the host has for ferretdb.
	Repository Repository `yaml:"repository"`
	// Unit is the name of the systemd unit. Default "": mongod or ferretdb.
	Unit string `yaml:"unit"`
	// Bundle is a folder or .tar here with .deb files and SHA256SUMS, installed in place
	// of a repository, for hosts without a network. Default "": none.
	Bundle string `yaml:"bundle"`
}

// Repository is a repository of packages, a mirror for instance.
type Repository struct {
	// URL is that before dists/. Default "".
	URL string `yaml:"url"`
	// Suite, for instance bookworm/mongodb-org/8.0; {codename} stands for the host's.
	// Default "".
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

// TLS is where the certificates for redis.tls and mongodb.tls come from.
type TLS struct {
	// Dir is the folder here of the authority that the toolkit makes, with its key. Default
	// "": .urifilter/tls of the folder in which targets are run.
	Dir string `yaml:"dir"`
	// Days is how long a certificate is good, 2 or more. A deployment renews it when a third
	// of that is left. Default 365.
	Days int `yaml:"days"`
	// CAFile is the authority, CertFile and KeyFile are certificates and keys of your own,
	// in PEM, in place of that authority; {host} in the last two stands for the name of the
	// host. Default "": the toolkit makes them.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// Packages is how packages get on hosts.
type Packages struct {
	// Update asks the repositories for new lists before something is installed.
	// Default true.
	Update bool `yaml:"update"`
	// Proxy is an HTTP proxy for apt: http://proxy:3128. Default "": as the host has it.
	Proxy string `yaml:"proxy"`
	// Bundle is a folder or .tar here with .deb files and SHA256SUMS for all that is
	// installed, for hosts without a network. Default "": none.
	Bundle string `yaml:"bundle"`
}

// Schedule is the monthly writeback to the archive.
type Schedule struct {
	// Kind is crontab (/etc/cron.d/urifilter), timer (of systemd; it makes up for times
	// when the host was off) or none. Default crontab.
	Kind string `yaml:"kind"`
	// When, in the five fields of a crontab: minute, hour, day, month, weekday.
	// Default 0 0 1 * *: at midnight of each first day of a month.
	When string `yaml:"when"`
}

// Fleet is how many hosts are changed at once.
type Fleet struct {
	// Canary is how many filter hosts go first, on their own; 0: none. Default 1.
	Canary int `yaml:"canary"`
	// Batch is how many of the others go at a time: a number, or a share as 25%.
	// Default 25%.
	Batch string `yaml:"batch"`
	// Parallel is how many hosts are worked on at once, 1 or more. Default 8.
	Parallel int `yaml:"parallel"`
	// HealthTimeout is how long a daemon may take to be healthy after a start; one that
	// restores large bit-maps needs more. Default 2m.
	HealthTimeout time.Duration `yaml:"health_timeout"`
	// Bake is how long a daemon that was started and is healthy must run on without a crash:
	// after the canary, before the other hosts are changed, and after the last batch, before
	// its release counts as healthy. 0: it is not watched. Default 30s.
	Bake time.Duration `yaml:"bake"`
}

// Default is an inventory without hosts.
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
