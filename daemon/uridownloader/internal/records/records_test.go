package records

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
)

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A list that could not be written is an error, however short it is.
func TestListOnAFullDisk(t *testing.T) {
	master := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"state":"failed","uri":"http://a.example/"}`+"\n")
	}))
	t.Cleanup(master.Close)
	for _, flags := range [][]string{nil, {"--json"}} {
		cmd := NewTasks()
		cmd.SetArgs(append([]string{"news", "--server", master.URL}, flags...))
		cmd.SetOut(full{})
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%q: %v, want %v", flags, err, syscall.ENOSPC)
		}
	}
}
