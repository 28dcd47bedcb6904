package command

import (
	"errors"
	"os"
)

// SettingsPath returns the file of a program's settings: that of the flag, else of the variable,
// else the default one if it exists, else "".
func SettingsPath(flag, variable, def string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv(variable); env != "" {
		return env
	}
	// A file that exists but cannot be read is an error to show, not a reason for defaults.
	if _, err := os.Stat(def); !errors.Is(err, os.ErrNotExist) {
		return def
	}
	return ""
}
