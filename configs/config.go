// Package configs holds the settings of the daemon: the struct with its defaults,
// the strict reader of file and environment, the validation, and the tokens file.
// The field comments and urifilter.yaml are the manual.
//
// It does not act on settings: it opens no socket, certificate or store.
package configs

import "time"

// Config holds the settings of the daemon. A Config from Default or Load is complete,
// but only Validate says whether it makes sense.
type Config struct {
	// Listen is the host:port to serve HTTP on; an empty host is every address of
	// the machine, port 0 any free port. An address other than loopback needs
	// auth.tokens_file. A socket handed over by systemd takes precedence.
	// Default 127.0.0.1:8000.
	Listen string `yaml:"listen"`
	// DataDir is the folder of the embedded store. One process owns it at a time. Answers to
	// long streams are also buffered in it, in spool, until their callers read them; with store
	// redis it need not exist, and they are then buffered in the system's folder for temporary
	// files. Default /var/lib/urifilter.
	DataDir string `yaml:"data_dir"`
	// Store says where bit-maps live: embedded (memory and data_dir of this machine)
	// or redis (shared by several daemons). Filters of the kind exact may instead be in MariaDB
	// (mysql). Default embedded.
	Store string `yaml:"store"`
	// Durability says when the embedded store answers: always (after the fsync that
	// covers the answer), interval (fsync once a second; a power cut loses up to that
	// second) or none (the operating system decides). With always, a MariaDB whose commits
	// are not on its disk is refused. Default always.
	Durability string `yaml:"durability"`

	// CheckpointBytes is how large a filter's journal may grow before the embedded store
	// rewrites the whole bit-map; a quarter of the bit-map, if that is more. A larger value
	// means fewer writes, and a longer start after a crash (64 MiB are read in 0.2 s).
	// 64 KiB to 1 TiB. Default 64MiB.
	CheckpointBytes Size `yaml:"checkpoint_bytes"`

	RESP    RESP    `yaml:"resp"`
	Redis   Redis   `yaml:"redis"`
	MySQL   MySQL   `yaml:"mysql"`
	MongoDB MongoDB `yaml:"mongodb"`

	// URINumScale is the capacity, in items, of filters that give none: 1 to 2^40.
	// Memory is 3.2 MB per million items at an error rate of 0.0001.
	// Also read from the variable URI_NUM_SCALE. Default 10000000.
	URINumScale uint64 `yaml:"uri_num_scale"`
	// AcceptErrorRate is the error rate of filters that give none: the share of new
	// items that are mistaken for seen when the filter is full, 0.000001 to 0.5.
	// Also read from the variable ACCEPT_ERROR_RATE. Default 0.0001.
	AcceptErrorRate float64 `yaml:"accept_error_rate"`
	// CanonicalDrop names the parameters of queries and paths that filters with canonical
	// crawl leave out, if they name none themselves; a star at the end matches anything.
	// Default: the usual ones that track visitors or name sessions.
	CanonicalDrop []string `yaml:"canonical_drop"`

	// Filters are made at the start if the store lacks them. The settings never change
	// or drop a filter that exists. A list here replaces the default one:
	// 1 uri, 2 ip, 3 uri_generator, 4 uri_download, 5 uri_parse.
	Filters []Filter `yaml:"filters"`

	Auth      Auth      `yaml:"auth"`
	TLS       TLS       `yaml:"tls"`
	Limits    Limits    `yaml:"limits"`
	Writeback Writeback `yaml:"writeback"`

	// ShutdownTimeout is how long a stop waits for requests in progress before it cuts
	// them off; what was answered is durable in either case. Default 30s.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`

	Log Log `yaml:"log"`
}

// RESP is the port for Redis clients, which speak the protocol RESP: BF.ADD, SADD, UF.FILTER.
type RESP struct {
	// Listen is the host:port to serve RESP on, with TLS if the section tls names a certificate. An
	// address other than loopback needs auth.tokens_file. A socket handed over by systemd, named
	// resp, takes precedence. Default "": Redis clients are not served.
	Listen string `yaml:"listen"`
	// AllowFlush lets callers with the scope admin, and without tokens all, drop all filters
	// with FLUSHALL or FLUSHDB. Default false.
	AllowFlush bool `yaml:"allow_flush"`
}

// RedisServers say which Redis is called, and how to log in, for all programs.
type RedisServers struct {
	// Addrs are host:port of one server, of several members of a cluster, or of the
	// sentinels when master_name is given. Default 127.0.0.1:6379.
	Addrs []string `yaml:"addrs"`
	// Username is the ACL user. Default "": the default user.
	Username string `yaml:"username"`
	// PasswordFile holds the password and nothing else; a line end after it is ignored.
	// Default "": no password.
	PasswordFile string `yaml:"password_file"`
	// DB is the number of the database; a cluster has 0 only. Default 0.
	DB      int `yaml:"db"`
	CallTLS `yaml:",inline"`
	// MasterName is the name of the master that the sentinels watch.
	// Default "": addrs are not sentinels.
	MasterName string `yaml:"master_name"`
}

// Redis is read only when store is redis.
type Redis struct {
	RedisServers `yaml:",inline"`
	// InDoubt says what to call items for which Redis's reply was lost, so that they may be
	// set although no caller was told that they are new: seen (no item is ever new twice,
	// but one of these may be lost, because every caller is told that it is a duplicate) or
	// new (none is lost, but one may be new for two callers). Default seen.
	InDoubt string `yaml:"in_doubt"`
	// Durability says what an answer waits for: server (what Redis itself waits for: with its
	// usual appendfsync everysec, a power cut there loses the last second) or fsync (what
	// was answered is on the disk of the master: servers that do not run with appendonly
	// yes and appendfsync always are refused). Default server.
	Durability string `yaml:"durability"`
	// Replicas is how many replicas of the master must have a batch before it is answered, so
	// that no failover loses what was answered; a batch that too few replicas confirm within a
	// second gets 503. Not for a cluster. Default 0: none.
	Replicas int `yaml:"replicas"`
	// MirrorBytes is how much memory of this machine the mirrors of all bloom and exact filters
	// take together. A mirror holds what this daemon knows to be in Redis, which saves round
	// trips. Bit-maps that fit are mirrored whole; of others, the most recently used items are,
	// 8 bytes each, and of exact filters too, 19 bytes each (at most half of limits.filter_bytes
	// for each filter, and more while Redis may still lose what was added in the last ten
	// seconds). If Redis loses its data, what is not mirrored is not restored from here.
	// 4 MiB to 1 TiB. Default 0: bit-maps are mirrored whole while they take no more than three
	// quarters of what limits.memory_bytes leaves for filters; exact filters have 64 MiB each.
	MirrorBytes Size `yaml:"mirror_bytes"`
}

// CallTLS says how the daemon calls a server by TLS. If the files have changed, they are
// reread for a new connection, so that certificates are renewed without a restart; existing
// connections stay.
type CallTLS struct {
	// TLS encrypts the connections and checks the certificate of the server. Default false.
	TLS bool `yaml:"tls"`
	// TLSCAFile holds the authorities, in PEM, that may have issued the server's certificate.
	// Default "": those of the system.
	TLSCAFile string `yaml:"tls_ca_file"`
	// TLSCertFile and TLSKeyFile are the certificate, in PEM, that the daemon shows to
	// identify itself, and its private key; one file may hold both. Default "": it shows none.
	TLSCertFile string `yaml:"tls_cert_file"`
	TLSKeyFile  string `yaml:"tls_key_file"`
	// TLSServerName is the name that the server's certificate must have. Default "": the
	// host name or IP address that is called.
	TLSServerName string `yaml:"tls_server_name"`
}

// MySQL is the MariaDB of filters that name it (filters: store: mysql), in addition to the
// store of the daemon. Several daemons may share it.
type MySQL struct {
	// Addr is the host:port of the server, or the path of its socket. Default "": there is none.
	Addr string `yaml:"addr"`
	// User is the user who logs in. `urifilter mysql grant` prints what creates one. Default
	// urifilter.
	User string `yaml:"user"`
	// PasswordFile holds the password and nothing else; a line end after it is ignored.
	// Default "": no password.
	PasswordFile string `yaml:"password_file"`
	// Database has the tables: letters, digits, _ $ -. Default urifilter.
	Database string `yaml:"database"`
	CallTLS  `yaml:",inline"`
}

// MongoDB is the archive of bit-maps.
type MongoDB struct {
	// URI is a connection string, mongodb://... or mongodb+srv://...; it may hold a
	// password, which is never shown. Default "": no archive.
	URI string `yaml:"uri"`
	// CallTLS overrides what the URI says about TLS; with tls false only the URI decides.
	CallTLS `yaml:",inline"`
	// Database is the name of the database. Default urifilter.
	Database string `yaml:"database"`
	// IfUnreachable says what happens at the start to a filter that the store lacks while
	// the archive cannot be reached: wait (calls for it get 503 and the daemon is not
	// ready until the archive answers) or empty (it starts empty: items seen before are
	// new again, and what the archive has of it is never merged in). Filters that the
	// store has are served in either case. Default wait.
	IfUnreachable string `yaml:"if_unreachable"`
}

// Auth says who may call.
type Auth struct {
	// TokensFile lists the tokens that callers present; tokens.example.yaml shows its
	// form. Default "": everybody may do everything, on a loopback address only.
	TokensFile string `yaml:"tokens_file"`
	// ProtectMetrics requires a token with the scope read for /metrics and /readyz?verbose,
	// which show the filters, their names and sizes. It needs tokens_file. Default
	// false: everybody may read them.
	ProtectMetrics bool `yaml:"protect_metrics"`
	// AllowedHosts are the names, without a port, that calls may have as Host if there is no
	// tokens_file, besides localhost and loopback addresses: the names that a proxy on this
	// machine passes on as Host, or has itself. Web pages under these names may call too.
	// Default none.
	AllowedHosts []string `yaml:"allowed_hosts"`
}

// TLS makes the daemon serve HTTPS. Both files are given, or neither.
type TLS struct {
	// CertFile is the certificate chain in PEM. Default "": plain HTTP.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the private key of the certificate in PEM. Default "".
	KeyFile string `yaml:"key_file"`
}

// Limits bound what one request, and all of them together, may cost.
type Limits struct {
	// BodyBytes is the largest request body after decompression; streamed bodies
	// (text/plain and NDJSON) are not bound by it. 1 KiB to 1 TiB. Default 64MiB.
	BodyBytes Size `yaml:"body_bytes"`
	// Items is the longest list in one request; streamed bodies are not bound by it.
	// 1 or more. Default 100000.
	Items int `yaml:"items"`
	// ItemBytes is the longest item as written in the body, at most body_bytes.
	// Default 64KiB.
	ItemBytes Size `yaml:"item_bytes"`
	// TextBytes is the longest text of a document in a near call, in UTF-8; body_bytes
	// applies, too. 1 to 1TiB. Default 4MiB.
	TextBytes Size `yaml:"text_bytes"`
	// HeaderTimeout is how long a caller may take to send a request's header, more
	// than 0. Default 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// BodyTimeout is how long a caller may pause within a body; a long body that keeps
	// coming is not cut off. More than 0. Default 30s.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// HeldBytes bounds the bodies in memory of all requests together, with 25 bytes for each item
	// of a list, and 128 for each document and what is told of those near it; a stream counts as
	// 4 MiB, a body that grows counts twice for a moment, and an answer until it is sent. Calls beyond it get 503
	// overloaded, and so do those of one token, or from one other machine, beyond three times
	// what is then left for all others: three quarters of it, if no others call. 0, or twice
	// body_bytes or more; a quarter of memory_bytes at most is used. Default 0: four times
	// body_bytes, and at least 256 MiB.
	HeldBytes Size `yaml:"held_bytes"`
	// FilterBytes is how much memory of this machine a growing filter may take: one of the kinds
	// timing, exact and simhash, or of the kind bloom with on_full: grow. At this limit, calls
	// with new items get 507 filter_full and nothing is remembered. 1 MiB or more. Default 0:
	// as much as memory_bytes leaves.
	FilterBytes Size `yaml:"filter_bytes"`
	// MemoryBytes is how much memory of this machine all filters, reservations and mirrors may
	// take together with the bodies of requests, which have held_bytes of it, but a quarter at
	// most. At this limit, calls with new items get 507 filter_full and nothing is remembered.
	// The daemon itself needs some memory besides; of it, batches that are carried out at once take
	// half as much as bodies may, and others wait for their turn. 64 MiB or more. Default 0: three quarters of
	// what the process may have: by its control group (MemoryMax= of a unit, the limit of a
	// container), or else by the machine.
	MemoryBytes Size `yaml:"memory_bytes"`
	// CompressBytes is the smallest size of answers that are compressed, by zstd or gzip, for
	// callers that accept it (Accept-Encoding); streams are compressed unless they are known to
	// be shorter. 0: no answer is. Default 64KiB.
	CompressBytes Size `yaml:"compress_bytes"`
	// Connections is how many may be open at once, and as many again at resp.listen; a further
	// one is answered 503 and closed. The process needs a file descriptor for each; if it may not
	// have that many, the limit is three quarters of those that it may have, for both ports
	// together. At most half as many calls of one token run at once. 0: no limit. Default 10000.
	Connections int `yaml:"connections"`
	// ConnectionsPerAddress is how many of them one address may have (for IPv6, a network of
	// 64 bits). Connections from this machine are not bound by it. Default 0: half of
	// connections.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
}

// Writeback is the daemon's own schedule of copies to the archive, in addition to the
// crontab that the toolkit installs.
type Writeback struct {
	// Interval is the time between two writebacks; any value but 0 needs mongodb.uri and
	// is at least 1m. Default 0s: none.
	Interval time.Duration `yaml:"interval"`
	// Keep is how many versions of a bit-map the archive holds, 1 or more. Default 3.
	Keep int `yaml:"keep"`
}

// Log is written to standard error.
type Log struct {
	// Level is the lowest level that is logged: debug, info, warn or error. Default info.
	Level string `yaml:"level"`
	// Format is text, json, or auto: text on a terminal and in systemd's journal, otherwise
	// json. Default auto.
	Format string `yaml:"format"`
}
