package filters_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/filter"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/filters"
)

func TestFiltersCommands(t *testing.T) {
	s := clienttest.NewServer(t)
	program := commandtest.Program{filter.New, filters.New}
	program.Ask(t, s, "a\nb\n", "filter", "--type", "ip")
	code, out, _ := program.Ask(t, s, "", "filters", "list")
	rows := strings.Split(out, "\n")
	if code != 0 || len(rows) != 7 || rows[0] != "ID  NAME           KIND   ITEMS    CAPACITY   FULL  ERROR ASKED  ERROR NOW      SIZE" ||
		rows[2] != " 2  ip             bloom      2  10,000,000  0.0 %       0.0001      1e-05  29.8 MiB" {
		t.Errorf("list: got %d,\n%s", code, out)
	}
	create := []string{"filters", "create", "pages", "--capacity", "1.5M", "--error-rate", "0.01", "--on-full", "reject"}
	if code, out, _ := program.Ask(t, s, "", create...); code != 0 || !strings.HasPrefix(out, "pages: created, id 1000, for 1,500,000 items at an error rate of 0.01, 4.5 MiB") {
		t.Errorf("create: got %d, %q", code, out)
	}
	if code, out, _ := program.Ask(t, s, "", create...); code != 0 || !strings.HasPrefix(out, "pages: unchanged") {
		t.Errorf("create again: got %d, %q", code, out)
	}
	if code, out, _ := program.Ask(t, s, "", "filters", "show", "pages"); code != 0 || !strings.Contains(out, "capacity        1,500,000 (0.0 % full, reject beyond)\n") || !strings.Contains(out, "bits set        25.0 %\n") || !strings.Contains(out, "last writeback  never\n") {
		t.Errorf("show: got %d,\n%s", code, out)
	}
	for _, args := range [][]string{{"list", "--json"}, {"show", "pages", "--json"}} {
		code, out, _ := program.Ask(t, s, "", append([]string{"filters"}, args...)...)
		var v map[string]any
		if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || v["filters"] == nil && v["capacity"] != 1.5e6 {
			t.Errorf("%q: got %d, %v, %s", args, code, err, out)
		}
	}
	if code, out, _ := program.Ask(t, s, "", "filters", "clear", "pages", "--confirm", "pages"); code != 0 || !strings.HasPrefix(out, "pages: cleared, id 1000 as before, generation 2") {
		t.Errorf("clear: got %d, %q", code, out)
	}
	if code, out, errOut := program.Ask(t, s, "", "filters", "drop", "pages", "--confirm", "pages"); code != 0 || out != "pages: dropped\n" || errOut != "" {
		t.Errorf("drop: got %d, %q", code, out)
	}
	// A default filter comes back.
	if code, out, errOut := program.Ask(t, s, "", "filters", "drop", "ip", "-y"); code != 0 || out != "ip: dropped\n" || !strings.HasPrefix(errOut, "urifilter: ip is a default filter: the next start of the daemon makes it again, empty, unless") {
		t.Errorf("drop -y: got %d, %q, %q", code, out, errOut)
	}
	if code, _, _ := program.Ask(t, s, "", "filters", "show", "ip"); code != 1 {
		t.Errorf("show after drop: got %d", code)
	}
}

// A list names the filters that are not served.
func TestListNamesFiltersInQuarantine(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"filters":[{"id":1,"name":"uri","kind":"bloom"}],"quarantined":[{"id":2,"name":"ip","reason":"stripe 3 is damaged"}]}`)
	}))
	defer s.Close()
	program, plain := commandtest.Program{filters.New}, clienttest.NewServer(t)
	if code, out, errOut := program.Ask(t, plain, "", "filters", "list", "--server", s.URL); code != 0 || strings.Contains(out, "ip") || errOut != "filter ip is in quarantine, and not served: stripe 3 is damaged\n" {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut := program.Ask(t, plain, "", "filters", "list", "--json", "--server", s.URL); code != 0 || !strings.Contains(out, `"stripe 3 is damaged"`) || errOut != "" {
		t.Errorf("--json: got %d, %q, %q", code, out, errOut)
	}
}
