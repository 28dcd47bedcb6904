package systemd

import "regexp"

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
