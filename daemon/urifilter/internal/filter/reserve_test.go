package filter

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

func TestReserveCommands(t *testing.T) {
	server := clienttest.NewServer(t)
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.CreateFilter(t.Context(), "jobs", client.FilterSpec{Kind: "exact"}); err != nil {
		t.Fatal(err)
	}
	program := commandtest.Program{NewReserve, NewCommit, NewRelease}
	ask := func(code int, in, want string, args ...string) string {
		t.Helper()
		args = append([]string{args[0], "--type", "jobs"}, args[1:]...)
		got, out, errOut := program.Ask(t, server, in, args...)
		if got != code || !strings.Contains(out+errOut, want) {
			t.Errorf("%q: code %d, %s%s, want %d and %q", args, got, out, errOut, code, want)
		}
		return out
	}
	mine := strings.Split(strings.TrimSpace(ask(0, "a\r\nb\n\na\nc d\n", "4 items: 3 reserved for 1m0s, 1 duplicates, 0 reserved by others\n", "reserve", "--lease", "1m")), "\n")
	if len(mine) != 3 || !strings.HasSuffix(mine[2], "\tc d") {
		t.Fatalf("%q", mine)
	}
	ask(0, "b\ne\n", "2 items: 1 reserved for 5m0s, 0 duplicates, 1 reserved by others\n", "reserve")
	ask(0, mine[0]+"\n"+mine[0]+"x\n", "lost\tax\n1 items committed, 1 lost\n", "commit")
	ask(0, mine[1]+"\n", `"done": 1`, "release", "--json")
	id, _, _ := strings.Cut(mine[0], "\t")
	ask(0, "", "2 items committed, 0 lost\n", "commit", "--reservation", id)
	ask(1, "", "404 unknown_reservation", "release", "--reservation", strings.Repeat("1", 32))
	ask(2, "", "leave one of them out", "commit", "--reservation", id, "mine.txt")
	ask(1, "a\n", "want RESERVATION, a tab", "commit")
	ask(1, "x\n", "422 lease_invalid", "reserve", "--lease", "25h")
	ask(1, "a\n", "422 reserve_not_supported", "reserve", "--type", "uri")
	ask(1, "ok\n\xff\n", "item 2 from line 1 on: it is not UTF-8", "reserve")
	ask(1, "{\n", "no JSON value", "reserve", "--input-format", "ndjson")
	values := ask(0, "7\n\"7\"\n", "2 reserved", "reserve", "--input-format", "ndjson")
	ask(0, values, "2 items committed, 0 lost\n", "commit", "--input-format", "ndjson")
	if isNew, err := c.Check(t.Context(), "jobs", []string{"a", "b", "c d", "7"}); err != nil || isNew[0] || !isNew[1] || isNew[2] || isNew[3] {
		t.Errorf("new: %v, %v", isNew, err)
	}
}
