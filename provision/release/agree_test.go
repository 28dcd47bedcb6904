package release

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// listed makes the listing of a host: the first word is the current release. A word is the letter of
// a release, with ' for another processor and ! if it was never healthy; later letters are newer.
func listed(words string) Listing {
	var l Listing
	for n, word := range strings.Fields(words) {
		name, never := strings.CutSuffix(word, "!")
		name, other := strings.CutSuffix(name, "'") // for another processor
		at := time.Unix(int64(name[0])*1000, 0)
		m := Manifest{ID: NewID(at, strings.Repeat(strings.ToLower(name), 12)), Arch: "amd64", Content: strings.Repeat(name, 64), Commit: "commit of " + name, Created: at}
		if other {
			m.Arch, m.Content = "arm64", strings.Repeat("0"+name, 32)
			m.ID = NewID(at, m.Content)
		}
		if !never {
			m.Healthy = &at
		}
		if n == 0 {
			l.Current = m.ID
		}
		l.Releases = append(l.Releases, m)
	}
	return l
}

// A rollback is one of the fleet: all hosts go to one release, whatever each of them had before.
func TestAgree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts   map[string]string
		version string
		to      string // the release, by its letter
		differ  bool
		err     string
	}{
		"all alike":                       {hosts: map[string]string{"a": "c b a", "b": "c b a"}, to: "b"},
		"one":                             {hosts: map[string]string{"a": "c b a"}, to: "b"},
		"the first alone has the new one": {hosts: map[string]string{"a": "c b a", "b": "b a", "c": "b a"}, to: "b", differ: true},
		"a host has skipped one":          {hosts: map[string]string{"a": "c b a", "b": "c a"}, to: "a"},
		"one is back already":             {hosts: map[string]string{"a": "b c a", "b": "c b a"}, to: "b", differ: true},
		"never healthy there":             {hosts: map[string]string{"a": "c b a", "b": "c b! a"}, to: "a"},
		"two processors":                  {hosts: map[string]string{"a": "c b a", "b": "c' b' a'"}, to: "b"},
		"nothing in common":               {hosts: map[string]string{"a": "c b", "b": "c a"}, err: "there is no other healthy release in common: a has "},
		"a new host":                      {hosts: map[string]string{"a": "c b", "b": "c"}, err: "in common"},
		"nothing at all":                  {hosts: map[string]string{"a": "c"}, err: "there is no other healthy release"},
		"the one that is named":           {hosts: map[string]string{"a": "c b a", "b": "c b a!"}, version: "aaaaaa", to: "a"},
		"a name that one lacks":           {hosts: map[string]string{"a": "c b a", "b": "c b"}, version: "aaaaaa", err: "host b: release aaaaaa: not on the host"},
		"a name of two":                   {hosts: map[string]string{"a": "c a", "b": "c b"}, version: "1970010", err: "release 1970010: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := map[string]Listing{}
			for host, words := range c.hosts {
				lists[host] = listed(words)
			}
			to, differ, err := Agree(lists, c.version)
			if (differ != "") != c.differ {
				t.Errorf("they differ: %q", differ)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				if c.version == "" && !errors.Is(err, ErrNoPrevious) {
					t.Errorf("%v is not ErrNoPrevious", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for host, m := range to {
				if m.Commit != "commit of "+c.to {
					t.Errorf("%s goes to %s, want %s", host, m.ID, c.to)
				}
				if _, there := lists[host].Find(m.ID); !there {
					t.Errorf("%s has no %s", host, m.ID)
				}
			}
		})
	}
}

// The clock of somebody who has deployed to some of the hosts was ahead, so that what came later has later times there
// than on a host that is new. The newest release is the newest all the same.
func TestAgreeAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	old, fresh := listed("b a"), listed("c b a")
	for n := range old.Releases {
		old.Releases[n].Created = old.Releases[n].Created.Add(time.Hour)
	}
	to, _, err := Agree(map[string]Listing{"a": old, "b": fresh, "c": old}, "")
	if err != nil {
		t.Fatal(err)
	}
	for host, m := range to {
		if m.Commit != "commit of b" {
			t.Errorf("%s goes to %s, of %s", host, m.ID, m.Commit)
		}
	}
}
