package job

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

// readJob reads a job file and checks it here, so that faults are reported with the user's own path.
func readJob(file string) (text []byte, j download.Job, source jobfile.Source, err error) {
	if text, err = os.ReadFile(file); err != nil {
		return nil, j, source, err
	}
	if j, source, err = jobfile.Parse(file, text); err != nil {
		return nil, j, source, err
	}
	for _, code := range source.Codes {
		if text, err = withCode(file, text, code); err != nil {
			return nil, j, source, err
		}
	}
	if source.File == "" && source.URL == "" {
		return text, j, source, nil
	}
	text, err = jobfile.WithoutURIs(file, text)
	return text, j, source, err
}

// withCode inserts the code of a script into a job that names a file beside it.
func withCode(file string, text []byte, code jobfile.CodeFile) ([]byte, error) {
	path := code.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", file, code.Key, err)
	}
	defer f.Close()
	read, err := io.ReadAll(io.LimitReader(f, script.MaxText+1)) // one byte more is too long
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", file, code.Key, err)
	}
	return jobfile.WithCode(file, text, code, string(read))
}

func send(cmd *cobra.Command, m *calls.Master, file string, skip bool, where func(name string) (method, path string)) error {
	text, j, source, err := readJob(file)
	if err != nil {
		return err
	}
	uris, err := openURIs(cmd.Context(), file, source) // before the job is stored
	if err != nil {
		return err
	}
	if uris != nil {
		defer uris.Close()
	}
	method, path := where(j.Name)
	var answer struct {
		job
		URIs added `json:"uris"`
	}
	if err := m.JSON(cmd.Context(), method, path+"?file="+url.QueryEscape(filepath.Base(file)), "application/yaml", text, &answer); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "job %s: version %d is stored\n", answer.Name, answer.Version); err != nil {
		return err
	}
	if uris != nil {
		return sendURIs(cmd, m, answer.Name, uris, skip)
	}
	return answer.URIs.print(cmd.OutOrStdout())
}
