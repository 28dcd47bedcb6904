package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version identifies the program, as recorded by the Go tool.
type Version struct {
	Version  string `json:"version"`            // of the module; (devel) if the build is not a release
	Commit   string `json:"commit,omitempty"`   // empty: built outside a checkout
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // the checkout differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// ReadVersion returns the version of this program.
func ReadVersion() Version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) Version {
	v := Version{Version: info.Main.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// Of returns a line that names the program.
func (v Version) Of(program string) string {
	text := program + " " + v.Version
	if v.Commit != "" {
		text += " (commit " + v.Commit[:min(12, len(v.Commit))]
		if v.Time != "" {
			text += " of " + v.Time
		}
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return fmt.Sprintf("%s %s %s/%s", text, v.Go, v.OS, v.Arch)
}

// NewVersion makes the command version.
func NewVersion(program string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  " + program + " version\n  " + program + " version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return WriteJSON(cmd.OutOrStdout(), ReadVersion())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), ReadVersion().Of(program))
			return err
		},
	}
	JSONFlag(cmd, &asJSON)
	return cmd
}
