//go:build unix

package chaos

import (
	"net/http"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// An answer that no daemon may give is a fault of the daemon; one that was lost is none.
func TestOddAnswersAreNoted(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		odd    bool
		want   history.Outcome
	}{
		"nonsense":  {func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"uri_list":["b"],"total":1,"duplicates":0}`)) }, true, history.Unknown},
		"lost":      {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, false, history.Unknown},
		"in doubt":  {func(w http.ResponseWriter) { clienttest.Problem(w, 503, "store_failed", "", nil) }, false, history.Unknown},
		"not ready": {func(w http.ResponseWriter) { clienttest.Problem(w, 503, "not_ready", "", nil) }, false, history.Refused},
	} {
		s := clienttest.NewServer(t)
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			test.answer(w)
			return true
		})
		daemon, err := client.New(s.URL, client.WithPatience(0))
		if err != nil {
			t.Fatal(err)
		}
		defer daemon.Close()
		c := &caller{}
		_, err = daemon.Filter(t.Context(), "uri", []string{"a", "b"})
		if got := c.outcomeOf(err); got != test.want || (len(c.odd) > 0) != test.odd || (toldOf(err) == "odd answer") != test.odd {
			t.Errorf("%s: got %v, odd answers %q, told %q, of %v", name, got, c.odd, toldOf(err), err)
		}
	}
}
