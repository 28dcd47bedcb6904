package systemd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Patterns of what may stand in a unit unquoted: nothing that systemd, the shell or a template
// would read as more than itself.
var (
	plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_@+,.:-]+)+$`)
	plainZone = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`)
)

// validate returns all faults joined, each naming its field and what is wanted.
func (p Params) validate(of Program) error {
	var faults []error
	add := func(field, value, want string) {
		faults = append(faults, fmt.Errorf("%s %q: %s", field, value, want))
	}
	if !slices.Contains(of.Commands(), p.Run) {
		add("run", p.Run, "want "+strings.Join(of.Commands(), " or "))
	}
	for _, f := range []struct{ field, value string }{
		{"binary", p.Binary}, {"config", p.Config}, {"env file", p.EnvFile}, {"token file", p.TokenFile}, {"data_dir", p.DataDir},
	} {
		switch {
		case !strings.HasPrefix(f.value, "/"):
			add(f.field, f.value, "want an absolute path")
		case !plainPath.MatchString(f.value) || path.Clean(f.value) != f.value:
			add(f.field, f.value, "want a path of letters, digits and _ @ + , . : - between single slashes, without . or .. as a part")
		}
	}
	for _, hidden := range []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp", "/proc", "/sys", "/dev"} {
		if p.DataDir == hidden || strings.HasPrefix(p.DataDir, hidden+"/") {
			add("data_dir", p.DataDir, "want another folder: the service does not see, or cannot keep, what is under "+hidden)
		}
	}
	if slices.Contains([]string{"/", "/var/lib", "/etc", "/usr", "/var", "/opt"}, p.DataDir) {
		add("data_dir", p.DataDir, "want a folder of its own")
	}
	for _, f := range []struct{ field, value string }{{"user", p.User}, {"group", p.Group}} {
		switch {
		case !AccountName(f.value):
			add(f.field, f.value, "want a small letter or _, then small letters, digits, _ or -, 31 at most")
		case f.value == "root":
			add(f.field, f.value, "want one that is not root")
		}
	}
	for i, l := range p.Listen {
		if _, err := listenStream(l); err != nil {
			faults = append(faults, err)
		} else if slices.Contains(p.Listen[:i], l) {
			add("listen", l, "want each address once")
		}
	}
	return errors.Join(faults...)
}

// listenStream converts a host:port to the form that a socket unit uses.
func listenStream(listen string) (string, error) {
	fault := func(want string) (string, error) { return "", fmt.Errorf("listen %q: %s", listen, want) }
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fault("want host:port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return fault("want a port from 1 to 65535")
	}
	switch host {
	case "":
		return strconv.FormatUint(n, 10), nil
	case "localhost":
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	zone := addr.Zone()
	switch {
	case err != nil:
		return fault("want an IP address: a socket unit takes no names of hosts")
	case zone == "":
		return netip.AddrPortFrom(addr, uint16(n)).String(), nil
	case !plainZone.MatchString(zone):
		return fault("want the name of an interface after %")
	}
	return netip.AddrPortFrom(addr.WithZone(""), uint16(n)).String() + "%" + zone, nil
}

var (
	accountName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)
	unitName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9@._-]*$`)
)

// AccountName reports whether a name can be that of a unit's user or group: a small letter or _,
// then small letters, digits, _ or -, 31 at most. It does not look whether there is such an account.
func AccountName(name string) bool { return accountName.MatchString(name) }

// UnitName reports whether a name can be that of a unit, with its suffix or without, and needs no
// quotes in a shell.
func UnitName(name string) bool { return unitName.MatchString(name) }
