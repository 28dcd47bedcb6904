package sandbox

import (
	"slices"
	"strings"
	"testing"
)

func TestSourceLines(t *testing.T) {
	targets := `Packages|http://mirror.test/debian/|bookworm|main|$(SIGNED_BY)
Packages|http://mirror.test/debian/|bookworm|contrib|$(SIGNED_BY)
Translations|http://mirror.test/debian/|bookworm|main|$(SIGNED_BY)
Packages|http://mirror.test/debian/|bookworm-updates|main|/usr/share/keyrings/debian-archive-keyring.gpg
Packages|http://mirror.test/security/|bookworm-security|main|
Packages|http://mirror.test/security/|bookworm-security|main|
Packages|http://mirror.test/debian/|bookworm-backports|main|
Packages|https://elsewhere.test/|bookworm|main|/etc/apt/keyrings/elsewhere.asc
Packages|https://elsewhere.test/|stable|main|
`
	got := sourceLines(targets, "bookworm", "trixie")
	want := []string{
		"deb http://mirror.test/debian/ trixie main",
		"deb http://mirror.test/debian/ trixie-updates main",
		"deb http://mirror.test/security/ trixie-security main",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for osRelease, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n":       "bookworm",
		"VERSION_CODENAME=\"trixie\"\nID=\"debian\"\n": "trixie",
		"ID=ubuntu\nVERSION_CODENAME=noble\n":          "",
		"":                                             "",
	} {
		if got := ownCodename(osRelease); got != want {
			t.Errorf("%q: %q, want %q", osRelease, got, want)
		}
	}
	if got := sourceLines(targets, "", "trixie"); got != nil {
		t.Errorf("on a machine of no release: %q", got)
	}
}

func TestAptOptions(t *testing.T) {
	config := `APT::Architecture "amd64";
Acquire::http::Proxy "http://proxy.test:3128/";
Acquire::http::Proxy::mirror.test "DIRECT";
Acquire::https::Verify-Peer "false";
Acquire::http::Timeout "30";
Acquire::Check-Date "false";
Acquire::https "";
Acquire::Retries "3";
`
	want := []string{
		`Acquire::http::Proxy "http://proxy.test:3128/"`, `Acquire::http::Proxy::mirror.test "DIRECT"`,
		`Acquire::https::Verify-Peer "false"`, `Acquire::Check-Date "false"`, `Acquire::Retries "3"`,
	}
	if got := aptOptions(config); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFindHierarchies(t *testing.T) {
	for name, c := range map[string]struct{ mountinfo, want string }{
		"version 2":  {"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup"},
		"both":       {"31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/systemd /sys/fs/cgroup/unified"},
		"none":       {"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", ""},
		"cut off":    {"22 1\n", ""},
		"a mistaken": {"22 1 8:1 / /cgroup2 rw - ext4 cgroup2 name=systemd\n", ""},
	} {
		if got := strings.Join(findHierarchies(c.mountinfo), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSpecs(t *testing.T) {
	for _, bad := range []Spec{
		{}, {Name: "Upper"}, {Name: "a b"}, {Name: "-a"}, {Name: strings.Repeat("a", 31)}, {Name: "a/../b"},
		{Name: "a", Release: "bullseye"}, {Name: "a", Password: "two\nlines"},
		{Name: "a", Disks: map[string]int64{"opt": 1 << 30}}, {Name: "a", Disks: map[string]int64{"/": 1 << 30}},
		{Name: "a", Disks: map[string]int64{"/opt/../etc": 1 << 30}}, {Name: "a", Disks: map[string]int64{"/opt": 4096}},
	} {
		if err := bad.validate(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	specs, err := Rehearsal(3, "trixie, bookworm")
	if err != nil || len(specs) != 3 || specs[0].Release != "trixie" || specs[1].Release != "bookworm" || specs[2].Release != "trixie" {
		t.Errorf("%+v, %v", specs, err)
	}
	for n, releases := range map[int]string{0: "", 201: "", 1: "sid"} {
		if specs, err := Rehearsal(n, releases); err == nil {
			t.Errorf("%d hosts of %q: %+v", n, releases, specs)
		}
	}
}

func TestSSHArguments(t *testing.T) {
	st := state{Index: 7, Hosts: []hostState{{Name: "a", Number: 11}, {Name: "b", Number: 12}}}
	s := st.sandbox("/a b", nil)
	args, err := s.SSHArguments("b", "deploy")
	text := strings.Join(args, " ")
	for _, want := range []string{"-i /a b/id_ed25519", `UserKnownHostsFile="/a b/known_hosts"`, "StrictHostKeyChecking=yes"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: want %s in it", text, want)
		}
	}
	if err != nil || !strings.HasSuffix(text, "deploy@10.88.7.12") {
		t.Errorf("%s, %v", text, err)
	}
	for _, host := range []string{"", "c"} {
		if _, err := s.SSHArguments(host, ""); err == nil || !strings.Contains(err.Error(), "hint: -host=a or -host=b") {
			t.Errorf("host %q: %v", host, err)
		}
	}
}
