package configs

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/configs/fault"
)

// Validate returns all faults joined, each naming its key, the value found (unless
// it is a secret) and the values allowed. It looks at settings only, not at files
// or servers that they name.
func (c Config) Validate() error {
	var f fault.List
	c.validateServing(&f)
	c.validateFilters(&f)
	f.OneOf("store", c.Store, StoreEmbedded, storeRedis)
	f.OneOf("durability", c.Durability, "always", "interval", "none")
	if c.Store == StoreEmbedded && c.DataDir == "" {
		f.Add("data_dir", `"": want a folder for the embedded store`)
	}
	if c.Store == storeRedis {
		c.Redis.validate(&f)
	}
	c.MySQL.validate(&f)
	c.validateArchive(&f)
	c.Log.Check(&f)
	return errors.Join(f...)
}

func (c Config) validateServing(f *fault.List) {
	CheckListen(f, "listen", c.Listen, c.Auth.TokensFile)
	if c.RESP.Listen != "" {
		CheckListen(f, "resp.listen", c.RESP.Listen, c.Auth.TokensFile)
	}
	if c.Auth.ProtectMetrics && c.Auth.TokensFile == "" {
		f.Add("auth.protect_metrics", "true: there is no token that could be asked for: set auth.tokens_file, or want false")
	}
	CheckAllowedHosts(f, c.Auth.AllowedHosts)
	c.TLS.Check(f)
	if err := CheckCheckpointBytes(c.CheckpointBytes); err != nil {
		f.Add("checkpoint_bytes", "%w", err)
	}
	l := c.Limits
	if l.BodyBytes < KiB || l.BodyBytes > TiB {
		f.Add("limits.body_bytes", "%s: want %s to %s", l.BodyBytes, KiB, TiB)
	}
	if l.ItemBytes < 1 || l.ItemBytes > l.BodyBytes {
		f.Add("limits.item_bytes", "%s: want 1 to limits.body_bytes, %s", l.ItemBytes, l.BodyBytes)
	}
	if l.TextBytes < 1 || l.TextBytes > TiB {
		f.Add("limits.text_bytes", "%s: want 1 to %s", l.TextBytes, TiB)
	}
	if l.Items < 1 {
		f.Add("limits.items", "%d: want 1 or more", l.Items)
	}
	if l.HeldBytes != 0 && l.HeldBytes/2 < l.BodyBytes {
		f.Add("limits.held_bytes", "%s: want 0, or twice limits.body_bytes (%s) and more", l.HeldBytes, l.BodyBytes)
	}
	if l.FilterBytes != 0 && l.FilterBytes < MiB {
		f.Add("limits.filter_bytes", "%s: want 0 for what limits.memory_bytes leaves, or %s and more", l.FilterBytes, MiB)
	}
	if l.MemoryBytes != 0 && l.MemoryBytes < MinMemory {
		f.Add("limits.memory_bytes", "%s: want 0 for a share of what the process may have, or %s and more", l.MemoryBytes, Size(MinMemory))
	}
	if l.CompressBytes < 0 {
		f.Add("limits.compress_bytes", "%s: want 0 for no compression, or 1 and more", l.CompressBytes)
	}
	CheckConnections(f, l.Connections)
	if l.ConnectionsPerAddress < 0 {
		f.Add("limits.connections_per_address", "%d: want 1 or more, or 0 for half of limits.connections", l.ConnectionsPerAddress)
	}
	f.AtLeast("limits.header_timeout", l.HeaderTimeout, time.Millisecond)
	f.AtLeast("limits.body_timeout", l.BodyTimeout, time.Millisecond)
	f.AtLeast("shutdown_timeout", c.ShutdownTimeout, time.Millisecond)
}

func (c Config) validateFilters(f *fault.List) {
	f.Text("uri_num_scale", checkCapacity(c.URINumScale))
	f.Text("accept_error_rate", checkErrorRate(c.AcceptErrorRate))
	f.Text("canonical_drop", checkDrop(c.CanonicalDrop))

	// Filters are checked with sound defaults, so that a wrong default is one fault, and not one for each
	// filter that uses it.
	sound := c.complete(Default().Defaults())
	names, ids := map[string]int{}, map[int]int{}
	for i, spec := range c.Specs() {
		key := fmt.Sprintf("filters[%d].", i)
		if text := CheckName(spec.Name); text != "" {
			f.Text(key+"name", text)
		} else if first, twice := names[spec.Name]; twice {
			f.Add(key+"name", "%q: is that of filters[%d]: want each once", spec.Name, first)
		} else {
			names[spec.Name] = i
		}
		if spec.ID < 0 {
			f.Add(key+"id", "%d: want 1 or more, or 0 for the daemon to choose", spec.ID)
		} else if first, twice := ids[spec.ID]; twice && spec.ID != 0 {
			f.Add(key+"id", "%d: is that of filters[%d]: want each once", spec.ID, first)
		} else {
			ids[spec.ID] = i
		}
		if spec.KeptIn() == "" && (c.Store == StoreEmbedded || c.Store == storeRedis) {
			if wrong := spec.NotIn(c.Store); wrong != nil {
				f.Text(key+wrong.Field, wrong.Setting)
			}
		}
		if spec.KeptIn() == StoreMySQL && c.MySQL.Addr == "" {
			f.Add(key+"store", "%q: there is none: set mysql.addr", spec.KeptIn())
		}
		for _, wrong := range sound[i].CheckParameters() {
			f.Text(key+wrong.Field, wrong.Setting)
		}
	}
}

// CheckName says what is wrong with the name of a filter; "" for nothing.
func CheckName(name string) string {
	if !namePattern.MatchString(name) {
		return fmt.Sprintf("%q: want a letter or _, then letters, digits, _ . : -, 64 at most", name)
	}
	return ""
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$`)

func (r Redis) validate(f *fault.List) {
	if len(r.Addrs) == 0 {
		f.Add("redis.addrs", "none: want host:port of a server")
	}
	*f = append(*f, r.Faults("redis")...)
	f.OneOf("redis.in_doubt", r.InDoubt, "seen", "new")
	f.OneOf("redis.durability", r.Durability, "server", "fsync")
	if r.Replicas < 0 {
		f.Add("redis.replicas", "%d: want 0 or more", r.Replicas)
	}
	if err := CheckMirrorBytes(r.MirrorBytes); err != nil {
		f.Add("redis.mirror_bytes", "%w", err)
	}
}

// CheckCheckpointBytes returns an error if checkpoint_bytes cannot be n.
func CheckCheckpointBytes(n Size) error {
	if n < 64*KiB || n > TiB {
		return fmt.Errorf("%s: want %s to %s", n, 64*KiB, TiB)
	}
	return nil
}

// CheckMirrorBytes returns an error if redis.mirror_bytes cannot be n.
func CheckMirrorBytes(n Size) error {
	if n != 0 && (n < 4*MiB || n > TiB) {
		return fmt.Errorf("%s: want 0 for whole mirrors, or %s to %s", n, 4*MiB, TiB)
	}
	return nil
}

// Faults returns what is wrong with the servers, whose keys are in a section; it is no fault to
// have no servers at all.
func (r RedisServers) Faults(section string) []error {
	var f fault.List
	key := section + "."
	for i, addr := range r.Addrs {
		if err := address.Check(addr); err != nil {
			f.Add(fmt.Sprintf("%saddrs[%d]", key, i), "%w", err)
		} else if host, port, _ := net.SplitHostPort(addr); host == "" || port == "0" {
			f.Add(fmt.Sprintf("%saddrs[%d]", key, i), "%q: want host:port of a server", addr)
		}
	}
	r.CallTLS.validate(&f, key)
	switch {
	case r.DB < 0:
		f.Add(key+"db", "%d: want 0 or more", r.DB)
	case r.DB > 0 && len(r.Addrs) > 1 && r.MasterName == "":
		f.Add(key+"db", "%d: want 0: several addrs without master_name are a cluster, which has no other database", r.DB)
	}
	return f
}

var databasePattern = regexp.MustCompile(`^[A-Za-z0-9_$-]{1,64}$`)

func (m MySQL) validate(f *fault.List) {
	if m.Addr == "" {
		return
	}
	if err := address.Check(m.Addr); !strings.HasPrefix(m.Addr, "/") && err != nil {
		f.Add("mysql.addr", "%w, or the path of a socket", err)
	} else if host, port, _ := net.SplitHostPort(m.Addr); !strings.HasPrefix(m.Addr, "/") && (host == "" || port == "0") {
		f.Add("mysql.addr", "%q: want host:port of a server, or the path of a socket", m.Addr)
	}
	if m.User == "" {
		f.Add("mysql.user", `"": want the name of a user`)
	}
	if !databasePattern.MatchString(m.Database) {
		f.Add("mysql.database", "%q: want 1 to 64 letters, digits, _ $ -", m.Database)
	}
	m.CallTLS.validate(f, "mysql.")
}

// validate refuses settings that would do nothing: somebody who names an authority and forgets
// tls would send everything in plain text.
func (c CallTLS) validate(f *fault.List, key string) {
	for _, s := range []struct{ key, value string }{
		{"tls_ca_file", c.TLSCAFile}, {"tls_cert_file", c.TLSCertFile}, {"tls_key_file", c.TLSKeyFile}, {"tls_server_name", c.TLSServerName},
	} {
		if s.value != "" && !c.TLS {
			f.Add(key+s.key, "%q: %stls is false: want true, or none of its settings", s.value, key)
		}
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		f.Add(key+"tls_cert_file", "%q and tls_key_file %q: want both or neither; a file that holds both is named twice", c.TLSCertFile, c.TLSKeyFile)
	}
}

func (c Config) validateArchive(f *fault.List) {
	switch w := c.Writeback.Interval; {
	case w != 0 && w < time.Minute:
		f.Add("writeback.interval", "%s: want 0s for none, or 1m or more", w)
	case w != 0 && c.MongoDB.URI == "":
		f.Add("writeback.interval", "%s: there is no archive to write to: set mongodb.uri, or want 0s", w)
	}
	if c.Writeback.Keep < 1 {
		f.Add("writeback.keep", "%d: want 1 or more", c.Writeback.Keep)
	}
	if c.MongoDB.URI == "" {
		return
	}
	f.OneOf("mongodb.if_unreachable", c.MongoDB.IfUnreachable, "wait", "empty")
	*f = append(*f, CheckMongoDB("mongodb", c.MongoDB.URI, c.MongoDB.Database, c.MongoDB.CallTLS)...)
}
