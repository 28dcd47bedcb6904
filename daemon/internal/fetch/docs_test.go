package fetch

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// The manual lists exactly the existing reasons, each with its meaning and whether a retry makes
// sense, and the ports that are not called.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../../../docs/fetching.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(text)
	for _, m := range Reasons() {
		again := "yes"
		if m.Permanent {
			again = "no"
		}
		if m.Reason == Status {
			again = "by the status"
		}
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", m.Reason, m.Text, again); !strings.Contains(manual, row) {
			t.Errorf("docs/fetching.md lacks the row %s", row)
		}
	}
	if got := strings.Count(manual, "\n| `"); got != len(Reasons()) {
		t.Errorf("docs/fetching.md has %d reasons, want %d", got, len(Reasons()))
	}
	var ports []string
	for _, p := range guard.BadPorts() {
		ports = append(ports, itoa(int(p)))
	}
	if flat := strings.Join(strings.Fields(manual), " "); !strings.Contains(flat, strings.Join(ports, ", ")) {
		t.Errorf("docs/fetching.md lacks the ports %s", strings.Join(ports, ", "))
	}
}
