// Package settings finds the file of settings for the commands that read one. What is in it
// is read by configs.
package settings

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
)

// DefaultPath is the file on a host that the toolkit manages.
const DefaultPath = "/etc/urifilter/urifilter.yaml"

// Path is the file of settings: that of the flag, else of URIFILTER_CONFIG, else the
// default one if it exists, else none.
func Path(flag string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv("URIFILTER_CONFIG"); env != "" {
		return env
	}
	// One that is there and cannot be read is an error to show, not a reason for defaults.
	if _, err := os.Stat(DefaultPath); !errors.Is(err, os.ErrNotExist) {
		return DefaultPath
	}
	return ""
}

// Flag adds --config, whose value is for Path.
func Flag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "`file` of settings (env URIFILTER_CONFIG)")
}
