package inventory

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Bastion is a chain of hosts to connect through, the nearest first. As a text they are
// comma-separated; YAML also accepts a list.
type Bastion []Hop

// Hop is user@host:port of a host on the way. User and port are optional.
type Hop struct {
	User string
	Host string
	Port int // 0: none given
}

// None reports whether it is the word none: no host, whatever defaults say.
func (b Bastion) None() bool { return len(b) == 1 && b[0] == Hop{Host: "none"} }

func (b Bastion) String() string {
	var all []string
	for _, hop := range b {
		all = append(all, hop.String())
	}
	return strings.Join(all, ",")
}

// UnmarshalText reads what String writes.
func (b *Bastion) UnmarshalText(text []byte) error {
	*b = nil
	for part := range strings.SplitSeq(string(text), ",") {
		if part = strings.TrimSpace(part); part == "" && len(text) == 0 {
			return nil
		}
		hop, err := ParseHop(part)
		if err != nil {
			return err
		}
		*b = append(*b, hop)
	}
	return nil
}

// UnmarshalText reads user@host:port.
func (h *Hop) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHop(string(text))
	return err
}

func (h Hop) String() string {
	text := h.Host
	if h.Port != 0 {
		text = net.JoinHostPort(h.Host, strconv.Itoa(h.Port))
	} else if strings.Contains(h.Host, ":") {
		text = "[" + h.Host + "]"
	}
	if h.User != "" {
		text = h.User + "@" + text
	}
	return text
}

// ParseHop reads user@host:port. User and port are optional; an IPv6 address is in brackets unless
// it stands alone.
func ParseHop(text string) (Hop, error) {
	var h Hop
	rest := strings.TrimPrefix(text, "ssh://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		h.User, rest = rest[:at], rest[at+1:]
		if !plainUser(h.User) {
			return Hop{}, wantHop(text)
		}
	}
	port := ""
	switch {
	case strings.HasPrefix(rest, "["):
		end := strings.IndexByte(rest, ']')
		if end < 0 || net.ParseIP(withoutZone(rest[1:end])) == nil {
			return Hop{}, wantHop(text)
		}
		h.Host, port = rest[1:end], rest[end+1:]
		if port != "" && !strings.HasPrefix(port, ":") {
			return Hop{}, wantHop(text)
		}
	case strings.Count(rest, ":") > 1 && net.ParseIP(withoutZone(rest)) != nil:
		h.Host = rest
	default:
		h.Host = rest
		if colon := strings.IndexByte(rest, ':'); colon >= 0 {
			h.Host, port = rest[:colon], rest[colon:]
		}
	}
	if !plainAddress(h.Host) {
		return Hop{}, wantHop(text)
	}
	if port != "" {
		n, err := strconv.ParseUint(port[1:], 10, 16)
		if err != nil || n == 0 {
			return Hop{}, wantHop(text)
		}
		h.Port = int(n)
	}
	return h, nil
}

func wantHop(text string) error {
	// The text before the @ may contain a password.
	if at := strings.LastIndexByte(text, '@'); at >= 0 && strings.Contains(text[:at], ":") {
		text = "..." + text[at:]
	}
	return fmt.Errorf("%q: want user@host:port, where user and port may be left out and an IPv6 address is in brackets", text)
}

func withoutZone(ip string) string {
	ip, _, _ = strings.Cut(ip, "%")
	return ip
}

// plainUser reports whether ssh and a shell would accept a name without quoting.
func plainUser(name string) bool {
	return name != "" && len(name) <= 64 && name[0] != '-' && strings.Trim(name, letters+"0123456789_.-+@\\") == ""
}

// plainAddress reports whether it may be a host name, an IP address, or a name of ~/.ssh/config.
func plainAddress(name string) bool {
	if strings.Contains(name, ":") {
		_, zone, _ := strings.Cut(name, "%")
		return net.ParseIP(withoutZone(name)) != nil && strings.Trim(zone, letters+"0123456789_.-") == ""
	}
	return name != "" && len(name) <= 253 && name[0] != '-' && strings.Trim(name, letters+"0123456789_.-") == ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
