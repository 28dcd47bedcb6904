package host

import (
	"maps"
	"strings"
	"testing"
)

func TestParseFiles(t *testing.T) {
	t.Parallel()
	got, err := parseFiles([]string{"/etc/x", "/etc/none", "/etc/empty", "/etc/y"}, "1\n0\n1\n1\nregular file|4|640|root|redis\nregular empty file|0|2755|a|b\nregular file|3|600|c|d\na\nb\n1\n0")
	want := map[string]File{"/etc/x": {"/etc/x", "a\nb\n", 0o640, "root", "redis"}, "/etc/empty": {"/etc/empty", "", 0o755, "a", "b"}, "/etc/y": {"/etc/y", "1\n0", 0o600, "c", "d"}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, c := range []struct{ text, want string }{
		{"1\ndirectory|4096|755|root|root\n", "read /etc/x: it is a directory"},
		{"1\nregular file|9999999|644|root|root\n", "read /etc/x: 9999999 bytes: want 524288 at most"},
		{"1\nregular file|5|644|root|root\nabc", "read /etc/x: got 3 of 5 bytes"},
		{"1\nregular file|2|644|root|root\nabc", "read /etc/x: got 1 bytes more"},
		{"0\nabc", "got 3 bytes more"},
		{"", `read /etc/x: got "", want whether it exists`},
		{"1\n", `stat wrote ""`},
		{"1\nregular file|x|644|root|root\n", "stat wrote"},
	} {
		if _, err := parseFiles([]string{"/etc/x"}, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q in it", c.text, err, c.want)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	wish := File{Path: "/etc/x", Content: "a"}
	if !wish.Same(File{"/etc/x", "a", 0o644, "root", "root"}) {
		t.Error("the defaults are root:root 0644")
	}
	for _, read := range []File{{"", "b", 0o644, "root", "root"}, {"", "a", 0o600, "root", "root"}, {"", "a", 0o644, "x", "root"}, {"", "a", 0o644, "root", "x"}} {
		if wish.Same(read) {
			t.Errorf("same as %+v", read)
		}
	}
}

func TestParseFacts(t *testing.T) {
	t.Parallel()
	f := parseFacts("arch=aarch64\nos=ubuntu\nversion=24.04\ncodename=noble\nname=Ubuntu 24.04.1 LTS\ncpu= fp asimd atomics\nsystemd=255\ncontainer=none\n")
	if f.Arch != "arm64" || f.OS != "ubuntu" || f.Version != "24.04" || f.Codename != "noble" || !f.Has("atomics") || f.Has("avx") ||
		f.Systemd != 255 || f.Container != "" || !strings.HasPrefix(f.Name, "Ubuntu") {
		t.Errorf("got %+v", f)
	}
	if f := parseFacts("arch=riscv64\n"); f.Arch != "riscv64" {
		t.Errorf("got %+v", f)
	}
}
