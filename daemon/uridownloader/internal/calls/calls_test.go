package calls

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The address of the master may have a password in it, which no error shows.
func TestErrorsShowNoPassword(t *testing.T) {
	asked := ""
	master := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, asked, _ = r.BasicAuth()
		w.WriteHeader(http.StatusTeapot)
	}))
	defer master.Close()
	for _, server := range []string{strings.Replace(master.URL, "://", "://me:s3cret@", 1), "http://me:s3cret@127.0.0.1:1", "http://me:s3c%zzret@h", "http://me:s3c/ret@h", "ftp://me:s3cret@h"} {
		cmd := Command(&cobra.Command{Use: "ask", SilenceErrors: true, SilenceUsage: true}, func(cmd *cobra.Command, m *Master, _ []string) error {
			return m.JSON(cmd.Context(), http.MethodGet, "/", "", nil, nil)
		})
		cmd.SetArgs([]string{"--server", server})
		if err := cmd.ExecuteContext(t.Context()); err == nil || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v", server, err)
		}
	}
	if asked != "s3cret" {
		t.Errorf("the master was asked with %q", asked)
	}
}
