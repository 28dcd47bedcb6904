package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A sandbox's network is a bridge with this machine's address .1. Each host is attached to it
// by a pair of virtual interfaces whose far end, host0, lies in the host's own network name
// space. The name space is made before the host and persists across its reboots. An nft table
// masquerades traffic to other networks.

func subnet(index int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88, byte(index), 0}), 24)
}
func address(index, number int) string { return fmt.Sprintf("10.88.%d.%d", index, number) }
func gateway(index int) string         { return address(index, 1) }
func bridge(index int) string          { return fmt.Sprintf("ufsb%d", index) }
func table(index int) string           { return fmt.Sprintf("urifilter_sandbox_%d", index) }

// link is the name of this machine's end of a host's pair; 15 characters at most.
func link(index, number int) string { return fmt.Sprintf("ufsb%dh%d", index, number) }

// netns is the path at which a host's network name space is kept.
func netns(index, number int) string { return filepath.Join(entry(index), strconv.Itoa(number)) }

// networkUp makes the missing parts of the bridge, the rules and the hosts' links.
func (s *Sandbox) networkUp(ctx context.Context) error {
	lock, err := makeAndLock(ctx, registry)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx = holding(ctx, lock)
	index := s.state.Index
	name := bridge(index)
	if !linkExists(name) {
		if err := run(ctx, "ip", "link", "add", name, "type", "bridge"); err != nil {
			return err
		}
	}
	if err := run(ctx, "ip", "addr", "replace", gateway(index)+"/24", "dev", name); err != nil {
		return err
	}
	if err := run(ctx, "ip", "link", "set", name, "up"); err != nil {
		return err
	}
	if err := nft(ctx, fmt.Sprintf(`
table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr %[2]s ip daddr != %[2]s masquerade
	}
}`, table(index), subnet(index))); err != nil {
		return err
	}
	if err := raiseLimits(); err != nil {
		return err
	}
	for _, h := range s.Hosts {
		if err := linkUp(ctx, index, h.state.Number); err != nil {
			return fmt.Errorf("network of host %s: %w", h.Name, err)
		}
	}
	return nil
}

// linkUp attaches one host to the bridge.
func linkUp(ctx context.Context, index, number int) error {
	space, outer := netns(index, number), link(index, number)
	if exists(filepath.Join("/sys/class/net", outer, "master")) {
		return nil // this is done last
	}
	// The following may be left over from an attempt that was interrupted.
	if linkExists(outer) {
		if err := run(ctx, "ip", "link", "delete", outer); err != nil {
			return err
		}
	}
	if exists(space) {
		if err := removeNetns(ctx, space); err != nil {
			return err
		}
	}
	if err := os.WriteFile(space, nil, 0o600); err != nil {
		return err
	}
	// The inner end is made in its own name space, so that it takes no name in this one.
	inner := []string{"nsenter", "--net=" + space, "ip"}
	for _, args := range [][]string{
		{"unshare", "--net=" + space, "true"},
		append(inner, "link", "set", "lo", "up"),
		append(inner, "link", "add", "host0", "type", "veth", "peer", "name", outer, "netns", strconv.Itoa(os.Getpid())),
		append(inner, "addr", "add", address(index, number)+"/24", "dev", "host0"),
		append(inner, "link", "set", "host0", "up"),
		append(inner, "route", "add", "default", "via", gateway(index)),
		{"ip", "link", "set", outer, "master", bridge(index), "up"},
	} {
		if err := run(ctx, args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// networkDown removes all of it. Nothing may run in the hosts any more.
func networkDown(ctx context.Context, index int) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range interfaces {
		if i.Name == bridge(index) || strings.HasPrefix(i.Name, bridge(index)+"h") {
			errs = append(errs, run(ctx, "ip", "link", "delete", i.Name))
		}
	}
	spaces, err := filepath.Glob(filepath.Join(entry(index), "[0-9]*"))
	errs = append(errs, err)
	for _, space := range spaces {
		errs = append(errs, removeNetns(ctx, space))
	}
	// Adding the table before deleting it avoids an error if it does not exist.
	errs = append(errs, nft(ctx, fmt.Sprintf("table ip %[1]s\ndelete table ip %[1]s\n", table(index))))
	return errors.Join(errs...)
}

func removeNetns(ctx context.Context, space string) error {
	if run(ctx, "mountpoint", "-q", space) == nil {
		if err := run(ctx, "umount", space); err != nil {
			return err
		}
	}
	return os.Remove(space)
}

func linkExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

func nft(ctx context.Context, rules string) error {
	return runInput(ctx, rules, "nft", "-f", "-")
}
