// Package settings finds the file of settings for the commands that read one. Package configs
// reads its contents.
package settings

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// DefaultPath is the file's path on a host that the toolkit manages.
const DefaultPath = "/etc/urifilter/urifilter.yaml"

// Path returns the file of settings: that of the flag, else of URIFILTER_CONFIG, else the
// default one if it exists, else "".
func Path(flag string) string { return command.SettingsPath(flag, "URIFILTER_CONFIG", DefaultPath) }

// Flag adds --config, whose value is for Path.
func Flag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "`file` of settings (env URIFILTER_CONFIG)")
}
