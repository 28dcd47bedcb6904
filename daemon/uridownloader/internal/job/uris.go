package job

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newURIs() *cobra.Command {
	var skip bool
	return skipInvalid(calls.Command(&cobra.Command{
		Use:   "uris NAME [FILE | URL]",
		Short: "Add URIs to a job, one a line, of a file, a URL or standard input",
		Example: `  uridownloader job uris news more.txt
  uridownloader job uris news https://example.com/sitemap.txt
  urifilter filter --filter uri_generator links.txt | uridownloader job uris news`,
		Args: cobra.RangeArgs(1, 2),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		if len(args) == 1 || args[1] == "-" {
			return sendURIs(cmd, m, args[0], cmd.InOrStdin(), skip)
		}
		list, err := openList(cmd.Context(), args[1])
		if err != nil {
			return err
		}
		defer list.Close()
		return sendURIs(cmd, m, args[0], list, skip)
	}), &skip)
}

// added counts what became of URIs.
type added struct{ Total, Added, Seen, Known, Invalid int }

func (a added) print(w io.Writer) error {
	text := fmt.Sprintf("%s URIs: %s added, %s seen by its filter, %s there before",
		human.Count(int64(a.Total)), human.Count(int64(a.Added)), human.Count(int64(a.Seen)), human.Count(int64(a.Known)))
	if a.Invalid > 0 {
		text += ", " + human.Count(int64(a.Invalid)) + " invalid"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// sendURIs adds URIs. It stops at an invalid one, unless these are to be skipped.
func sendURIs(cmd *cobra.Command, m *calls.Master, name string, uris io.Reader, skip bool) error {
	path := calls.JobPath(name) + "/uris"
	if skip {
		path += "?skip_invalid=true"
	}
	resp, err := m.Do(cmd.Context(), http.MethodPost, path, "text/plain", uris)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var a added
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return err
	}
	return a.print(cmd.OutOrStdout())
}

// skipInvalid is the flag of commands that send lists of URIs.
func skipInvalid(cmd *cobra.Command, skip *bool) *cobra.Command {
	cmd.Flags().BoolVar(skip, "skip-invalid", false, "leave out lines that are no URIs, and count them, instead of failing")
	return cmd
}
