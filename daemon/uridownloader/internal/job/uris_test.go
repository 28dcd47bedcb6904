package job

import (
	"strings"
	"testing"
)

// The address of a list may have a password in it, which no error shows.
func TestListErrorsShowNoPassword(t *testing.T) {
	for _, from := range []string{"http://me:s3c/ret@h/list", "http://me:s3c%zzret@h/list", "http://me:s3cret@127.0.0.1:1/list"} {
		if _, err := openList(t.Context(), from); err == nil || strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), "ret@") {
			t.Errorf("%s: %v", from, err)
		}
	}
}
