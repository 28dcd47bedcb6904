package connection_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/filter"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/filters"
)

// program has commands that call a daemon.
var program = commandtest.Program{filter.New, filter.NewCheck, filters.New}

func TestHintsSayWhatIsNext(t *testing.T) {
	s := clienttest.NewServer(t)
	s.RequireToken("secret")
	code, _, errOut := program.Ask(t, s, "a\n", "filter")
	if code != 1 || !strings.Contains(errOut, "401 unauthorized") || !strings.Contains(errOut, "\nhint: give a token with --token-file or URIFILTER_TOKEN\n") {
		t.Errorf("no token: got %d, %q", code, errOut)
	}
	t.Setenv("URIFILTER_TOKEN", "wrong")
	if code, _, errOut := program.Ask(t, s, "a\n", "filter", "--token", "secret"); code != 0 {
		t.Errorf("the flag is not above the variable: %d, %q", code, errOut)
	}
	t.Setenv("URIFILTER_TOKEN", "secret")
	if code, out, _ := program.Ask(t, s, "a\n", "check", "--all"); code != 0 || out != "seen\ta\n" {
		t.Errorf("token in the environment: got %d, %q", code, out)
	}
	for answer, want := range map[string]string{
		"403 forbidden":       "use a token that has this scope",
		"409 filter_conflict": "`urifilter filters show NAME`",
		"503 store_failed":    "the daemon's log",
		"404 ":                "is that the address of a urifilter daemon?",
		"404 unknown_path":    "is that the address of a urifilter daemon?",
	} {
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			status, code, _ := strings.Cut(answer, " ")
			if code == "" {
				http.NotFound(w, nil)
				return true
			}
			clienttest.Problem(w, map[string]int{"403": 403, "404": 404, "409": 409, "503": 503}[status], code, "so it is", nil)
			return true
		})
		if code, _, errOut := program.Ask(t, s, "", "filters", "list"); code != 1 || !strings.Contains(errOut, "hint: "+want) {
			t.Errorf("%s: got %d, %q, want the hint %q", answer, code, errOut, want)
		}
	}
	s.Stop()
	if code, _, errOut := program.Ask(t, s, "", "filters", "list"); code != 1 || !strings.Contains(errOut, "start it with `urifilter serve`") {
		t.Errorf("no daemon: got %d, %q", code, errOut)
	}
}
