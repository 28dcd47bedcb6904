package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/program"
)

// tryTop: the table has a row for each host, those that are away with the reason; on a terminal it is live.
func tryTop(t *testing.T, l *e2e.Laptop, crawler *e2e.Crawler) {
	inventory := l.Inventory(t)
	defer l.WriteInventory(t, inventory)
	l.WriteInventory(t, strings.Replace(inventory, "\nsettings:", fmt.Sprintf("\n  - {name: gone, address: %s, port: 9, roles: [filter]}\nsettings:", l.Hosts["one"].Address), 1))
	items := make([]string, 60_000)
	for n := range items {
		items[n] = fmt.Sprintf("https://example.com/top/%d", n)
	}
	crawler.Filter(t, items...)

	live := l.OnTerminal(t, "urifilter:top", "-interval=200ms")
	live.WaitFor(t, "gone  away")
	want := regexp.MustCompile(`(?m)^one +active +[0-9.]+ +[1-9][0-9.]* +[0-9.]+ +[0-9.]+ +uri 60\.[0-9] % +\S+ +[0-9hms]+\r?$`)
	for end := time.Now().Add(3 * time.Minute); !want.MatchString(live.Text()); {
		if time.Now().After(end) {
			t.Fatalf("no rate is shown:\n%s", live.Text())
		}
		crawler.Filter(t, items[:100]...)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", live.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := live.Wait(t); r.Code != 0 {
		t.Errorf("Ctrl-C: exit code %d", r.Code)
	}

	if r := l.Mage(t, "urifilter:top"); r.Code != fleet.CodeUnreachable || !regexp.MustCompile(`(?m)^gone +away +.*nothing listens at`).MatchString(r.Stdout) {
		t.Errorf("exit code %d, want %d\n%s", r.Code, fleet.CodeUnreachable, r.Text())
	}
	lines := strings.Split(strings.TrimSpace(l.Mage(t, "urifilter:top", "-json", "-interval=100ms").Stdout), "\n")
	var rows [2]struct {
		Host, Status, Error string
		Answer              struct {
			Ready            bool
			Release, Version string
			Rates            *struct{}
			Filters          []program.FilterCounts
		}
	}
	for n := range min(len(lines), len(rows)) {
		if err := json.Unmarshal([]byte(lines[n]), &rows[n]); err != nil {
			t.Fatalf("%v: %s", err, lines[n])
		}
	}
	if a := rows[0].Answer; rows[0].Host != "one" || !a.Ready || a.Release == "" || a.Version == "" || a.Rates == nil || !slices.ContainsFunc(a.Filters, func(f program.FilterCounts) bool { return f.Name == "uri" && f.Full() > 0.5 }) {
		t.Errorf("%+v", rows[0])
	}
	if rows[1].Host != "gone" || rows[1].Status != "unreachable" || rows[1].Error == "" {
		t.Errorf("%+v", rows[1])
	}
}
