// Package sandboxtest gives tests real hosts that are gone when the test ends. If a
// machine cannot run them, the test is skipped with a message that says what is missing.
package sandboxtest

import (
	"context"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/sandbox"
)

// Up makes a sandbox, by default in a temporary folder. When the test fails, it logs the
// ends of the hosts' consoles.
func Up(t testing.TB, o sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestSystem") {
		t.Fatal("a test that boots hosts is named TestSystem..., so that `go tool mage testSystem` runs it")
	}
	if err := sandbox.Missing(); err != nil {
		t.Skip(err)
	}
	if o.Out == nil {
		o.Out = t.Output()
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	var s *sandbox.Sandbox
	t.Cleanup(func() {
		if t.Failed() && s != nil {
			for _, h := range s.Hosts {
				console := h.Console()
				t.Logf("%s wrote to its console:\n%s", h.Name, console[max(0, len(console)-2000):])
			}
		}
		if err := sandbox.Down(context.Background(), o.Dir); err != nil {
			t.Error(err)
		}
	})
	s, err := sandbox.Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
