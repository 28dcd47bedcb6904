package records

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A list that could not be written is an error, however short it is.
func TestListOnAFullDisk(t *testing.T) {
	records := 1
	master := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(`{"state":"failed","uri":"http://a.example/"}`+"\n", records))
	}))
	t.Cleanup(master.Close)
	for _, records = range []int{1, 1000} {
		for _, flags := range [][]string{nil, {"--json"}} {
			cmd := NewTasks()
			cmd.SetArgs(append([]string{"news", "--server", master.URL}, flags...))
			cmd.SetOut(full{})
			cmd.SetErr(io.Discard)
			if err := cmd.Execute(); !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), syscall.ENOSPC.Error()) != 1 {
				t.Errorf("%d records, %q: %v, want %v once", records, flags, err, syscall.ENOSPC)
			}
		}
	}
}

// A negative limit is no limit of any kind.
func TestNegativeLimit(t *testing.T) {
	cmd := NewTasks()
	cmd.SetArgs([]string{"news", "--server", "http://127.0.0.1:9", "--limit", "-1"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); !errors.As(err, new(command.UsageError)) {
		t.Error(err)
	}
}
