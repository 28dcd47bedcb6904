package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// asked is a host that notes its commands, and answers with how many there were.
type asked struct {
	host.Host
	scripts []string
}

func (a *asked) Run(_ context.Context, c host.Command) (host.Output, error) {
	a.scripts = append(a.scripts, c.Script)
	if c.Script == "fail" {
		return host.Output{}, &host.CommandError{Host: "a", Output: host.Output{Code: 1}}
	}
	return host.Output{Stdout: strings.Join(a.scripts, " ")}, nil
}

func (a *asked) Upload(context.Context, host.Upload) error { return nil }

// A look is answered from memory until something changes the host: by another command, whether it
// succeeds or not, or by an upload. What changes by itself is asked each time.
func TestLooksAreRemembered(t *testing.T) {
	t.Parallel()
	a := &asked{}
	w := watched{a, func(report.Event) {}, &memo{}, false}
	run := func(c host.Command) string {
		out, _ := w.Run(t.Context(), c)
		return out.Stdout
	}
	look := func(script string) host.Command { return host.Command{Script: script, Look: true} }
	first := run(look("look"))
	if run(look("look")) != first || len(a.scripts) != 1 {
		t.Errorf("asked %q", a.scripts)
	}
	run(host.Command{Script: "look", Look: true, Root: true}) // may see something else
	run(host.Command{Script: "look", Look: true, Stdin: strings.NewReader("x")})
	run(look("fail"))
	run(look("fail")) // no answer
	run(host.Command{Script: "watch", Watch: true})
	run(host.Command{Script: "watch", Watch: true})
	if run(look("look")) != first {
		t.Error("what changes nothing has made it forget")
	}
	if want := []string{"look", "look", "look", "fail", "fail", "watch", "watch"}; !slices.Equal(a.scripts, want) {
		t.Errorf("asked %q, want %q", a.scripts, want)
	}
	for what, change := range map[string]func(){
		"a command":        func() { run(host.Command{Script: "change"}) },
		"one that failed":  func() { run(host.Command{Script: "fail"}) },
		"an upload":        func() { _ = w.Upload(t.Context(), host.Upload{Path: "/x"}) },
		"a secret command": func() { run(host.Command{Script: "change", Secret: true}) },
	} {
		before := run(look("look"))
		change()
		if run(look("look")) == before {
			t.Errorf("%s: an old answer", what)
		}
	}
}
