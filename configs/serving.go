package configs

import (
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/configs/fault"
)

// CheckListen adds what is wrong with listen, or another key of an address: callers of one that
// other machines reach need tokens.
func CheckListen(f *fault.List, key, listen, tokensFile string) {
	if err := address.Check(listen); err != nil {
		f.Add(key, "%w", err)
	} else if tokensFile == "" && !address.Loopback(listen) {
		f.Add(key, "%q: other machines could call without a token: set auth.tokens_file to a file of tokens, or listen on 127.0.0.1", listen)
	}
}

// CheckAllowedHosts adds what is wrong with auth.allowed_hosts.
func CheckAllowedHosts(f *fault.List, hosts []string) {
	for i, host := range hosts {
		if host == "" || strings.ContainsAny(host, ":/*[] ") {
			f.Add(fmt.Sprintf("auth.allowed_hosts[%d]", i), "%q: want the name or IPv4 address of a host, without a port", host)
		}
	}
}

// CheckConnections adds what is wrong with limits.connections.
func CheckConnections(f *fault.List, connections int) {
	if connections < 0 {
		f.Add("limits.connections", "%d: want 1 or more, or 0 for no limit", connections)
	}
}

// Check adds what is wrong with the section tls.
func (t TLS) Check(f *fault.List) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		f.Add("tls", "cert_file %q and key_file %q: want both or neither", t.CertFile, t.KeyFile)
	}
}

// Check adds what is wrong with the section log.
func (l Log) Check(f *fault.List) {
	f.OneOf("log.level", l.Level, "debug", "info", "warn", "error")
	f.OneOf("log.format", l.Format, "auto", "text", "json")
}
