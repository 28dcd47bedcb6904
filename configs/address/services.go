package address

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Services is a list of servers: host:port with a name or an address, or network/bits:port.
type Services []service

type service struct {
	name string       // "": within counts
	in   netip.Prefix // of one address or of a network
	port uint16
}

// ParseServices reads the list of a setting. An error names its key and the index.
func ParseServices(key string, list []string) (Services, error) {
	var all Services
	for i, text := range list {
		s, err := parseService(text)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func parseService(text string) (service, error) {
	wrong := fmt.Errorf("%q: want host:port or network:port, such as proxy.example:3128, 10.0.0.5:3128, 10.1.0.0/16:3128 or [fd00::/8]:3128", text)
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return service{}, wrong
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return service{}, wrong
	}
	s := service{port: uint16(number)}
	if strings.Contains(host, "/") {
		if s.in, err = netip.ParsePrefix(host); err != nil {
			return service{}, wrong
		}
		return s, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap().WithZone("")
		s.in = netip.PrefixFrom(addr, addr.BitLen())
		return s, nil
	}
	if strings.ContainsAny(host, ":@ *") {
		return service{}, wrong
	}
	s.name = hostname(host)
	return s, nil
}

// Have reports whether the list has a server that is called host and answers at an address.
func (all Services) Have(host string, at netip.AddrPort) bool {
	for _, s := range all {
		if s.port == at.Port() && (s.name != "" && s.name == hostname(host) || s.name == "" && s.in.Contains(at.Addr().Unmap())) {
			return true
		}
	}
	return false
}

func hostname(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
