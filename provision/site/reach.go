package site

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

// reached returns where other hosts reach a host. Its address is for SSH from this machine: it may
// be a name that only this machine's ssh_config knows.
func (s *Site) reached(h inventory.Host) string {
	if h.PrivateAddress != "" || s.Resolve == nil {
		return cmp.Or(h.PrivateAddress, h.Address)
	}
	return s.Resolve(h)
}

// Scraped returns the host:port at which a program on a host can be asked from elsewhere, and whether by TLS; "":
// it listens on loopback alone.
func (s *Site) Scraped(ctx context.Context, h inventory.Host, p program.Program) (at string, tls bool, err error) {
	p = s.On(h, p)
	values, err := s.Settings(ctx, h, p, true)
	if err != nil {
		return "", false, err
	}
	told, err := values.Read(p)
	if err != nil || address.Loopback(told.Listen) {
		return "", false, err
	}
	u, err := url.Parse(told.URL)
	if err != nil {
		return "", false, err
	}
	return net.JoinHostPort(s.reached(h), u.Port()), u.Scheme == "https", nil
}

// seen is the address at which a host reaches another one.
func (s *Site) seen(from, to inventory.Host) string {
	if from.Name == to.Name {
		return "127.0.0.1"
	}
	return s.reached(to)
}

// bind returns the addresses on which a server listens for other hosts: those given, or else
// where others reach the host, if other hosts call the server.
func (s *Site) bind(key string, h inventory.Host, given []string, calls func(program.Servers) bool) ([]string, error) {
	for _, f := range s.callers(calls) {
		if f.Name == h.Name {
			continue
		}
		if err := s.elsewhere(key, f, h); err != nil || len(given) > 0 {
			return given, err
		}
		at := s.reached(h)
		if net.ParseIP(at) == nil {
			return nil, fmt.Errorf("%s: host %s reaches %s by the name %s, on which no server can listen\nhint: %s", key, f.Name, h.Name, at, privately(h))
		}
		return []string{at}, nil
	}
	return given, nil
}

// elsewhere returns an error if a host would meet itself where it should reach another one.
func (s *Site) elsewhere(key string, from, to inventory.Host) error {
	at := s.reached(to)
	if ip := net.ParseIP(at); at == "localhost" || ip != nil && ip.IsLoopback() {
		return fmt.Errorf("%s: host %s would call itself at %s, in place of host %s\nhint: %s", key, from.Name, at, to.Name, privately(to))
	}
	return nil
}

func privately(h inventory.Host) string {
	return "give host " + h.Name + " a private_address, the IP address at which the other hosts reach it"
}

// InventoryError is a fault of the inventory that only a host could show.
type InventoryError struct{ error }

// BindPreflight returns the proof that a host has the addresses on which its servers will listen.
// Behind NAT the address for SSH is another one.
func (s *Site) BindPreflight(h inventory.Host) step.Proof {
	return step.NewProof("preflight: addresses", func(ctx context.Context, at host.Host) error {
		out, err := at.Run(ctx, host.Command{Script: "ip -o addr show 2>/dev/null | awk '{print $4}' | cut -d/ -f1", Look: true})
		if err != nil {
			return err
		}
		have := strings.Fields(out.Stdout)
		for i, text := range have {
			if ip := net.ParseIP(text); ip != nil {
				have[i] = ip.String()
			}
		}
		for _, l := range s.listeners(ctx, h) {
			for _, one := range l.addresses {
				ip := net.ParseIP(one)
				if ip == nil || ip.IsLoopback() || len(have) == 0 || slices.Contains(have, ip.String()) {
					continue
				}
				have = slices.DeleteFunc(have, func(text string) bool {
					ip := net.ParseIP(text)
					return ip == nil || ip.IsLoopback() || ip.IsLinkLocalUnicast()
				})
				return &InventoryError{fmt.Errorf("%s: %s is no address of the host, which has %s\nhint: give host %s that of them at which the other hosts reach it as its private_address", l.what, one, strings.Join(have, ", "), h.Name)}
			}
		}
		return nil
	})
}
