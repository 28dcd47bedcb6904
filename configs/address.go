package configs

import "net"

// URL is where a daemon with these settings answers on its own machine.
func (c Config) URL() string {
	scheme := "http://"
	if c.TLS.CertFile != "" {
		scheme = "https://"
	}
	return scheme + Reachable(c.Listen)
}

// Reachable is the host:port at which a program that listens on an address is called on its
// own machine: an address for all interfaces is the loopback address of the same family.
func Reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // Validate refuses it
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
