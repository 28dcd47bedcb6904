package settings_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

func files(t *testing.T, text string) *settings.Files {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Load([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return &settings.Files{
		Values: func(context.Context) (settings.Values, error) { return settings.Of(doc.Content[0], "test"), nil },
		Group:  "urifilter", Program: urifilter.Program(),
	}
}

func steps(f *settings.Files) []step.Step {
	return []step.Step{f.TokensFile(), f.Settings()}
}

func TestSystemOnAHost(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots a host")
	}
	t.Parallel()
	h := hosttest.New(t, "bookworm")

	// On a host that is not prepared, the plan works, and the deployment says what is missing.
	f := files(t, "listen: 0.0.0.0:8000\nauth: {tokens_file: /etc/urifilter/tokens.yaml}\nmongodb: {uri: 'mongodb://u:S3cretPassword@db:27017/'}\n")
	if pending := hosttest.Plan(t, h, steps(f)); len(pending) != 2 {
		t.Errorf("plan of a fresh host: %q", pending)
	}
	if _, err := hosttest.Apply(t, h, steps(f)); err == nil || !strings.Contains(err.Error(), "hint: go tool mage install:env") {
		t.Errorf("on a host that is not prepared: %v", err)
	}
	h.Sh(t, "groupadd --system urifilter && install -d -m 0750 -o root -g urifilter /etc/urifilter && rm -f /etc/urifilter/*")
	if _, err := hosttest.Apply(t, h, steps(f)); err == nil || !strings.Contains(err.Error(), "operator.token does not exist\nhint: go tool mage install:env makes it") {
		t.Errorf("without a token of its own: %v", err)
	}
	h.Sh(t, "umask 077; seq 100 | sha256sum | cut -c1-64 >/etc/urifilter/operator.token")

	all := steps(f)
	for _, s := range all {
		c, err := s.(step.Wish).Look(t.Context(), h)
		if err != nil || c == nil {
			t.Fatal(s.Title(), c, err)
		}
		if strings.Contains(c.Diff, "S3cretPassword") {
			t.Errorf("%s: the diff shows a password:\n%s", s.Title(), c.Diff)
		}
	}
	hosttest.Must(t, h, all)
	for path, want := range map[string]string{"urifilter.yaml": "640 root:urifilter", "tokens.yaml": "640 root:urifilter"} {
		if got := h.Sh(t, "stat -c '%a %U:%G' /etc/urifilter/"+path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if digest := h.Sh(t, "printf %s \"$(cat /etc/urifilter/operator.token)\" | sha256sum | cut -c1-64"); !strings.Contains(h.Sh(t, "cat /etc/urifilter/tokens.yaml"), "sha256:"+digest) {
		t.Error("tokens.yaml lacks the host's own token")
	}

	// An administrator's lines stay. Keys that nobody sets any longer are removed; the
	// administrator's own keys are not.
	h.Sh(t, "printf '\\n# ours: quiet nights\\nlog: {level: warn}   # really\\n' >>/etc/urifilter/urifilter.yaml; printf '%s\\n' '- {name: mine, token: abcdefghijklmnopqrst, scopes: [read]}' >>/etc/urifilter/tokens.yaml")
	f = files(t, "listen: 0.0.0.0:8001\nauth: {tokens_file: /etc/urifilter/tokens.yaml}\n")
	all = steps(f)
	if changed := hosttest.Must(t, h, all); len(changed) != 1 {
		t.Errorf("changed %q", changed)
	}
	text := h.Sh(t, "cat /etc/urifilter/urifilter.yaml")
	for _, want := range []string{"\n# ours: quiet nights\nlog: {level: warn}   # really", "listen: 0.0.0.0:8001"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "uri:") || !strings.Contains(h.Sh(t, "cat /etc/urifilter/urifilter.yaml.bak"), "uri:") {
		t.Errorf("mongodb.uri is not gone, or not in the backup:\n%s", text)
	}
	if !strings.Contains(h.Sh(t, "cat /etc/urifilter/tokens.yaml"), "{name: mine,") {
		t.Error("somebody else's token is gone")
	}

	// Undone.
	said, err := all[1].(step.Undoer).Undo(t.Context(), h, errors.New("x"))
	if err != nil || !strings.Contains(said, "as it was before") || !strings.Contains(h.Sh(t, "cat /etc/urifilter/urifilter.yaml"), "8000") {
		t.Errorf("undo: %q, %v", said, err)
	}

	// On a read-only file system, what could not be changed is as it was.
	h.Sh(t, "mount --bind /etc/urifilter /etc/urifilter && mount -o remount,ro,bind /etc/urifilter")
	write := steps(f)[1].(step.Undoer)
	if c, err := write.Look(t.Context(), h); err != nil || c == nil {
		t.Fatal(c, err)
	} else if err := c.Apply(t.Context()); err == nil {
		t.Error("written on a file system that is read-only")
	}
	if said, err := write.Undo(t.Context(), h, nil); err != nil || !strings.Contains(said, "as it was before") {
		t.Errorf("undo on a read-only file system: %q, %v", said, err)
	}
	h.Sh(t, "umount /etc/urifilter")

	// Faults in the host's file are reported with their line, and nothing is touched.
	h.Sh(t, "echo 'lisen: x' >>/etc/urifilter/urifilter.yaml")
	before := h.Sh(t, "sha256sum /etc/urifilter/*")
	_, err = hosttest.Apply(t, h, steps(f))
	if err == nil || !strings.Contains(err.Error(), "/etc/urifilter/urifilter.yaml:") || !strings.Contains(err.Error(), "lisen: unknown key") || !strings.Contains(err.Error(), "hint: fix") {
		t.Errorf("an unknown key on the host: %v", err)
	}
	if err := f.Check().Prove(t.Context(), h); err == nil {
		t.Error("the preflight lets it pass")
	}
	h.Sh(t, "sed -i 's/^lisen.*/a: [/' /etc/urifilter/urifilter.yaml")
	if _, err = hosttest.Apply(t, h, steps(f)); err == nil || !strings.Contains(err.Error(), "not YAML") {
		t.Errorf("a malformed file: %v", err)
	}
	h.Sh(t, "sed -i '$d' /etc/urifilter/urifilter.yaml; echo 'lisen: x' >>/etc/urifilter/urifilter.yaml")
	if after := h.Sh(t, "sha256sum /etc/urifilter/*"); after != before {
		t.Errorf("touched:\n%s\n%s", before, after)
	}
}

func TestSystemLoopbackWithoutTokensNeedsNone(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots a host")
	}
	t.Parallel()
	h := hosttest.New(t, "trixie")
	h.Sh(t, "groupadd --system urifilter && install -d -m 0750 -o root -g urifilter /etc/urifilter")
	f := files(t, "log: {level: warn}\n")
	if changed := hosttest.Must(t, h, steps(f)); len(changed) != 1 {
		t.Errorf("changed %q", changed)
	}
	if got := h.Sh(t, "ls -A /etc/urifilter"); got != ".urifilter.yaml.managed\nurifilter.yaml" {
		t.Errorf("files: %s", got)
	}
	open := files(t, "listen: 0.0.0.0:8000\n")
	if err := open.Check().Prove(t.Context(), h); err == nil || !strings.Contains(err.Error(), "set auth.tokens_file") {
		t.Error(err)
	}
}
