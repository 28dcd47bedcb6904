package http_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// A body that says nothing of its caller is a stranger's, in whichever way it says nothing: it is
// held in the strangers' budget, and takes nothing of that of callers with a token.
func TestABodyOfNobodyIsAStrangers(t *testing.T) {
	const first = `{"filter_typeid":1,"access_token":"secret-filter","uri_list":["a"]`
	for _, lines := range []string{"", "Authorization:\r\n", "Authorization: \t \r\n", "Authorization:\r\nAuthorization:\r\n"} {
		r := apitest.New(t, apitest.WithTokens, func(o *api.Options) { o.Limits.HeldBytes = 1 }) // not a byte for callers with a token
		conn := r.Dial()
		if _, err := fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", lines, len(first)+1, first); err != nil {
			t.Fatal(err)
		}
		r.Eventually("the stranger's budget holds its body", func() bool { return r.API.HeldAnonymous() > 0 })
		if _, err := io.WriteString(conn, "}"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasSuffix(string(answer), " 200") {
			t.Errorf("%q: %q %v", lines, answer, err)
		}
	}
}
