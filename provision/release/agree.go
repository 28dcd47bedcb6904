package release

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Same reports whether two manifests are of one release: of the same content, or of one commit for
// different processors.
func (m Manifest) Same(other Manifest) bool {
	return m.content() == other.content() || m.Arch != other.Arch && m.Commit != "" && m.Commit == other.Commit
}

// same returns the release of a list that is the same as another host's.
func (l Listing) same(m Manifest) (Manifest, bool) {
	if same, there := l.Find(m.ID); there && same.Same(m) {
		return same, true
	}
	i := slices.IndexFunc(l.Releases, m.Same)
	if i < 0 {
		return Manifest{}, false
	}
	return l.Releases[i], true
}

// Agree returns the one release to which all hosts of a fleet roll back, by host, from the listings of
// all. version is as for Listing.Target; "": the release that was healthy last, on all hosts, apart from
// the newest that is current anywhere. So hosts of which only some have a new release come together
// at the one before it. differ describes the hosts if their current releases are not one, "" if they are.
func Agree(lists map[string]Listing, version string) (to map[string]Manifest, differ string, err error) {
	hosts := slices.Sorted(maps.Keys(lists))
	differ = differing(lists, hosts)
	to = map[string]Manifest{}
	if version != "" || len(hosts) < 2 {
		for _, name := range hosts {
			if to[name], err = lists[name].Target(version); err != nil {
				return nil, differ, fmt.Errorf("%s%w", of(name, hosts), err)
			}
			if first := to[hosts[0]]; !first.Same(to[name]) {
				return nil, differ, fmt.Errorf("release %s: that is %s on %s and %s on %s\nhint: give more of the id", version, first.ID, hosts[0], to[name].ID, name)
			}
		}
		return to, differ, nil
	}
	best, found := common(lists, hosts)
	if !found {
		return nil, differ, fmt.Errorf("%w in common: %s", ErrNoPrevious, has(lists, hosts))
	}
	for _, name := range hosts {
		to[name], _ = lists[name].same(best)
	}
	return to, differ, nil
}

func of(name string, hosts []string) string {
	if len(hosts) < 2 {
		return ""
	}
	return "host " + name + ": "
}

// common returns the release that all hosts go back to.
func common(lists map[string]Listing, hosts []string) (best Manifest, found bool) {
	var newest Manifest // of those that are current
	for _, name := range hosts {
		if m, there := lists[name].Find(lists[name].Current); there && (newest.ID == "" || newer(lists, hosts, m, newest)) {
			newest = m
		}
	}
	var last time.Time
	for _, m := range lists[hosts[0]].Releases {
		if newest.ID != "" && m.Same(newest) {
			continue
		}
		var healthy time.Time // when it was that last, on any host
		all := true
		for _, name := range hosts {
			same, there := lists[name].same(m)
			if all = all && there && same.Healthy != nil; all && same.Healthy.After(healthy) {
				healthy = *same.Healthy
			}
		}
		if all && (!found || healthy.After(last)) {
			best, last, found = m, healthy, true
		}
	}
	return best, found
}

// newer reports whether a release was put on hosts after another one. A host that has both knows: the times of one host
// are in order, whoever has deployed to it, and those of two need not be.
func newer(lists map[string]Listing, hosts []string, m, than Manifest) bool {
	for _, name := range hosts {
		a, has := lists[name].same(m)
		b, both := lists[name].same(than)
		if has && both {
			return a.Created.After(b.Created)
		}
	}
	return m.Created.After(than.Created)
}

// differing says what is current where, if that is not one release.
func differing(lists map[string]Listing, hosts []string) string {
	var parts []string
	var first Manifest
	one := true
	for n, name := range hosts {
		m, _ := lists[name].Find(lists[name].Current)
		if n == 0 {
			first = m
		}
		one = one && (m.ID == first.ID || m.ID != "" && first.ID != "" && m.Same(first))
		current := cmp.Or(lists[name].Current, "none")
		parts = append(parts, name+" has "+current)
	}
	if one {
		return ""
	}
	return strings.Join(parts, ", ")
}

func has(lists map[string]Listing, hosts []string) string {
	var parts []string
	for _, name := range hosts {
		var ids []string
		for _, m := range lists[name].Releases {
			id := m.ID
			switch {
			case m.ID == lists[name].Current:
				id += " (current)"
			case m.Healthy == nil:
				id += " (never healthy)"
			}
			ids = append(ids, id)
		}
		if ids == nil {
			ids = []string{"none"}
		}
		parts = append(parts, name+" has "+strings.Join(ids, ", "))
	}
	return strings.Join(parts, "; ")
}
