package inventory

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Has reports whether the host has a role.
func (h Host) Has(role string) bool { return slices.Contains(h.Roles, role) }

// With returns the hosts that have a role.
func (i *Inventory) With(role string) []Host { return Having(i.Hosts, role) }

// Having returns those of hosts that have one of some roles.
func Having(hosts []Host, roles ...string) []Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h Host) bool { return !slices.ContainsFunc(roles, h.Has) })
}

// Host returns the host of that name.
func (i *Inventory) Host(name string) (Host, bool) {
	n := slices.IndexFunc(i.Hosts, func(h Host) bool { return h.Name == name })
	if n < 0 {
		return Host{}, false
	}
	return i.Hosts[n], true
}

// Choose returns the hosts that match a text such as web1,db*,role:filter, in inventory order:
// names, patterns with * and ?, and roles. "" and "all" mean all of them. A part that matches no
// host is an error.
func (i *Inventory) Choose(text string) ([]Host, error) {
	if text = strings.TrimSpace(text); text == "" || text == "all" {
		return i.Hosts, nil
	}
	chosen := make([]bool, len(i.Hosts))
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		found := false
		for n, h := range i.Hosts {
			ok, err := h.means(part)
			if err != nil {
				return nil, fmt.Errorf("-hosts: %q: want a name or a pattern such as web*", part)
			}
			chosen[n] = chosen[n] || ok
			found = found || ok
		}
		if !found {
			return nil, i.noHost(part)
		}
	}
	var hosts []Host
	for n, h := range i.Hosts {
		if chosen[n] {
			hosts = append(hosts, h)
		}
	}
	if hosts == nil {
		return nil, fmt.Errorf("-hosts: %q: want names of hosts", text)
	}
	return hosts, nil
}

func (h Host) means(part string) (bool, error) {
	if role, ok := strings.CutPrefix(part, "role:"); ok {
		return h.Has(role), nil
	}
	if part == h.Name || part == h.Address {
		return true, nil
	}
	return path.Match(part, h.Name)
}

func (i *Inventory) noHost(part string) error {
	if role, ok := strings.CutPrefix(part, "role:"); ok {
		if !slices.Contains(i.roles(), role) {
			return fmt.Errorf("-hosts: %q: there is no such role: want %s", part, strings.Join(i.roles(), ", "))
		}
		return fmt.Errorf("-hosts: %q: no host of %s has this role", part, i.from)
	}
	var names []string
	for _, h := range i.Hosts {
		names = append(names, h.Name)
	}
	return fmt.Errorf("-hosts: %q: no such host in %s\nhint: it has %s", part, i.from, strings.Join(names, ", "))
}
