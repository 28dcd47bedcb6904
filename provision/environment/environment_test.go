package environment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/systemd"
)

var filter = systemd.Urifilter()

func TestSystemSteps(t *testing.T) {
	t.Parallel()
	for _, release := range []string{"bookworm", "trixie"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			h := hosttest.New(t, release)
			steps := environment.Steps(environment.Options{Program: filter})
			want := []string{
				"environment: user: make the group urifilter and make the user urifilter",
				"environment: folders: make /opt/urifilter (0755 root:root), /opt/urifilter/releases (0755 root:root), /etc/urifilter (0750 root:urifilter), /var/lib/urifilter (0700 urifilter:urifilter)",
				"environment: operator token: make /etc/urifilter/operator.token",
			}
			if plan := hosttest.Plan(t, h, steps); !slices.Equal(plan, want) {
				t.Errorf("plan: %q", plan)
			}
			if token, err := environment.OperatorToken(t.Context(), h, filter.TokenFile()); token != "" || err != nil {
				t.Errorf("token before: %q, %v", token, err)
			}
			if changed := hosttest.Must(t, h, steps); !slices.Equal(changed, want) {
				t.Errorf("changed: %q", changed)
			}
			if got := h.Sh(t, "getent passwd urifilter | cut -d: -f6-7; runuser -u urifilter -- cat /etc/urifilter/operator.token | wc -c; runuser -u nobody -- cat /etc/urifilter/operator.token 2>&1 || :; ls -A /etc/urifilter"); got !=
				"/var/lib/urifilter:/usr/sbin/nologin\n65\ncat: /etc/urifilter/operator.token: Permission denied\noperator.token" {
				t.Errorf("the host has\n%s", got)
			}
			token, err := environment.OperatorToken(t.Context(), h, filter.TokenFile())
			if err != nil || len(token) != 64 {
				t.Fatalf("token: %q, %v", token, err)
			}
			// What an administrator changes is put right, and what they made stays.
			h.Sh(t, "chmod 777 /etc/urifilter; chmod 644 /etc/urifilter/operator.token; usermod -c 'night shift' urifilter; echo x >/var/lib/urifilter/x")
			hosttest.Must(t, h, steps)
			if got := h.Sh(t, "stat -c %a /etc/urifilter /etc/urifilter/operator.token; getent passwd urifilter | cut -d: -f5; cat /var/lib/urifilter/x"); got != "750\n640\nnight shift\nx" {
				t.Errorf("put right:\n%s", got)
			}
			if again, err := environment.OperatorToken(t.Context(), h, filter.TokenFile()); again != token || err != nil {
				t.Errorf("token: made again, %v", err)
			}
			h.Sh(t, "echo short >/etc/urifilter/operator.token")
			if _, err := environment.OperatorToken(t.Context(), h, filter.TokenFile()); err == nil || !strings.Contains(err.Error(), "hint:") {
				t.Errorf("damaged token: %v", err)
			}
			hosttest.Must(t, h, steps)

			h.Sh(t, "rm -r /var/lib/urifilter; touch /var/lib/urifilter")
			if _, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), "/var/lib/urifilter: it is a regular empty file: want a folder") {
				t.Errorf("a file in place of a folder: %v", err)
			}
			if _, err := hosttest.Apply(t, h, environment.Steps(environment.Options{Program: filter, User: "root"})); err == nil || !strings.Contains(err.Error(), "hint: name another one") {
				t.Errorf("root: %v", err)
			}
			h.Sh(t, "rm /var/lib/urifilter")
			hosttest.Must(t, h, environment.Steps(environment.Options{Program: filter, User: "crawl", Group: "crawlers"}))
			if got := h.Sh(t, "stat -c '%a %U:%G' /var/lib/urifilter /etc/urifilter"); got != "700 crawl:crawlers\n750 root:crawlers" {
				t.Errorf("other names:\n%s", got)
			}
		})
	}
}
