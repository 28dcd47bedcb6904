package schedule_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

var filter = systemd.Urifilter()

func steps(t *testing.T, o schedule.Options) (*schedule.Schedule, []step.Step) {
	t.Helper()
	o.Program = filter
	s, err := schedule.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Steps(apt.New(apt.Options{}))
}

// daemon makes the host run the daemon under our units, with tokens and an archive.
func daemon(t *testing.T, h *hosttest.Host) {
	t.Helper()
	hosttest.Must(t, h, environment.Steps(environment.Options{Program: filter}))
	h.PutProgram(t, "/opt/urifilter/current/urifilter")
	token, err := environment.OperatorToken(t.Context(), h, filter.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	files := []host.File{
		{Path: "/etc/urifilter/urifilter.yaml", Mode: 0o640, Group: "urifilter", Content: "mongodb: {uri: mongodb://127.0.0.1:27017/}\nauth: {tokens_file: /etc/urifilter/tokens.yaml}\nfilters: [{name: uri, capacity: 1000}]\n"},
		{Path: "/etc/urifilter/tokens.yaml", Mode: 0o640, Group: "urifilter", Content: "- {name: toolkit, token: \"" + fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token))) + "\", scopes: [admin]}\n"},
	}
	units, err := systemd.Render(filter, systemd.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if u.Name == filter.JobService() || u.Name == filter.JobTimer() {
			continue // a deployment does not install them either
		}
		files = append(files, host.File{Path: systemd.Dir + "/" + u.Name, Content: string(u.Content), Mode: u.Mode})
	}
	for _, f := range files {
		if err := host.WriteFile(t.Context(), h, f); err != nil {
			t.Fatal(err)
		}
	}
	h.Sh(t, "systemctl daemon-reload; systemctl start urifilter.service")
	// The daemon is up once it has queried the archive, which may have to start first.
	h.Wait(t, "printf 'http://example.com/%d\n' 1 2 3 | /opt/urifilter/current/urifilter filter --token-file /etc/urifilter/operator.token")
}

// Both kinds, cron and the timer, are left to run by themselves at the next minute.
func TestSystemScheduleRuns(t *testing.T) {
	t.Parallel()
	hosts, repository := hosttest.WithRepository(t, "bookworm", "trixie")
	for _, h := range hosts {
		t.Run(h.Sandbox.Release, func(t *testing.T) {
			t.Parallel()
			h.Sh(t, fmt.Sprintf(`/usr/lib/apt/apt-helper download-file %s /etc/apt/keyrings/f.asc >&2
echo 'deb [signed-by=/etc/apt/keyrings/f.asc] %s %s %s' >/etc/apt/sources.list.d/f.list
apt-get update -qq && apt-get install -qq -y --no-install-recommends %s >&2`, repository.KeyURL, repository.URL, repository.Suite, repository.Component, repository.Package))
			daemon(t, h)
			h.Sh(t, "mkdir -p /var/spool/cron/crontabs /etc/cron.d; echo '0 5 * * * root true' >/etc/cron.d/theirs; touch -d 2020-01-01 /etc/cron.d/theirs")

			_, crontab := steps(t, schedule.Options{When: "* * * * *"})
			if h.Sandbox.Release == "bookworm" {
				if plan := hosttest.Plan(t, h, crontab); len(plan) != 3 || plan[0] != "schedule: cron: install cron" {
					t.Errorf("plan: %q", plan)
				}
			} else { // a cron that read its folder in the very second in which our file is written
				h.Sh(t, `apt-get install -qq -y --no-install-recommends cron >&2; touch -d '+2 sec' /etc/cron.d; systemctl restart cron
while [ "$(date +%s)" -lt "$(stat -c %Y /etc/cron.d)" ]; do sleep 0.02; done`)
			}
			hosttest.Must(t, h, crontab)
			h.Wait(t, "journalctl -q -t urifilter-writeback | grep -q 'uri: written, version uri-[0-9]*, about 3 items'")
			if got := h.Sh(t, "journalctl --sync; journalctl -q -t urifilter-writeback -o cat"); !strings.HasPrefix(got, "asking the daemon at http://127.0.0.1:8000") {
				t.Errorf("the journal: %s", got)
			}
			if got := h.Sh(t, "runuser -u urifilter -- /opt/urifilter/current/urifilter bitmap verify --config /etc/urifilter/urifilter.yaml"); !strings.Contains(got, "uri-") {
				t.Errorf("the archive: %s", got)
			}

			_, timer := steps(t, schedule.Options{Kind: schedule.Timer, When: "* * * * *"})
			hosttest.Must(t, h, timer)
			if got := h.Sh(t, "ls /etc/cron.d/urifilter 2>&1; systemctl show -P TimersCalendar urifilter-writeback.timer; systemctl show -P ExecStart urifilter-writeback.service"); !strings.Contains(got, "No such file") ||
				strings.Count(got, "OnCalendar=") != 1 || !strings.Contains(got, "OnCalendar=*-*-* *:*:00") || strings.Count(got, "argv[]=") != 1 {
				t.Errorf("the timer: %s", got)
			}
			h.Wait(t, "journalctl -q -u urifilter-writeback.service | grep -q 'uri: written, version uri-'")

			hosttest.Must(t, h, crontab)
			if got := h.Sh(t, "systemctl is-active urifilter-writeback.timer; systemctl is-enabled urifilter-writeback.timer; ls -d /etc/systemd/system/urifilter-writeback.*.d 2>/dev/null; :"); got != "inactive\ndisabled" {
				t.Errorf("back to the crontab: %s", got)
			}
			none, off := steps(t, schedule.Options{Kind: schedule.None})
			hosttest.Must(t, h, off)
			if next, err := none.Next(t.Context(), h); next != "" || err != nil {
				t.Errorf("next of none: %q, %v", next, err)
			}
			if got := h.Sh(t, "ls -A /etc/cron.d; cat /etc/cron.d/theirs; stat -c %y /etc/cron.d/theirs"); !strings.Contains(got, "theirs\n0 5 * * * root true\n2020-01-01") || strings.Contains(got, "urifilter") {
				t.Errorf("other crontabs: %s", got)
			}
		})
	}
}

// systemd understands our expressions as cron would.
func TestSystemNext(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "trixie")
	h.Sh(t, "ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime")
	for when, want := range map[string]string{
		"0 0 1 * *":              "-01 00:00:00 JST",
		"30 3 * * 7":             "Sun ",
		"5 4-6/2 15 jan,jul mon": "",
		"0 0 29 2 *":             "-02-29 00:00:00 JST",
		"*/15 1 * */3 *":         " 01:00:00 JST",
	} {
		s, _ := steps(t, schedule.Options{When: when})
		got, err := s.Next(t.Context(), h)
		if err != nil || !strings.Contains(got, want) || want == "" && got != "" || want != "" && got == "" {
			t.Errorf("%s: got %q, %v, want %q in it", when, got, err, want)
		}
	}
}

// A host that has no program yet is reported, and what a plan says stays true.
func TestSystemTimerWithoutProgram(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	_, timer := steps(t, schedule.Options{Kind: schedule.Timer})
	if plan := hosttest.Plan(t, h, timer); len(plan) != 2 {
		t.Errorf("plan: %q", plan)
	}
	if _, err := hosttest.Apply(t, h, timer); err == nil || !strings.Contains(err.Error(), "hint: go tool mage deploy") {
		t.Errorf("got %v", err)
	}
	_, crontab := steps(t, schedule.Options{})
	hosttest.Must(t, h, crontab)
	if got := h.Sh(t, "systemctl is-active cron; dpkg-query -W -f '${db:Status-Status}' exim4-daemon-light 2>&1 || :"); !strings.HasPrefix(got, "active") || strings.Contains(got, "\ninstalled") {
		t.Errorf("cron: %s", got)
	}
	// An administrator's changes to our file are put right, and are restored if a step fails.
	h.Sh(t, "echo '# mine' >>/etc/cron.d/urifilter; chmod 600 /etc/cron.d/urifilter; systemctl disable --now cron")
	if changed := hosttest.Must(t, h, crontab); len(changed) != 2 {
		t.Errorf("changed: %q", changed)
	}
	write := crontab[2].(step.Undoer)
	h.Sh(t, "echo '# mine' >>/etc/cron.d/urifilter")
	c, err := write.Look(t.Context(), h)
	if err != nil || !strings.Contains(c.Diff, "-# mine") {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := c.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said, err := write.Undo(t.Context(), h, nil); err != nil || said != "/etc/cron.d/urifilter is as it was before" {
		t.Errorf("undo: %q, %v", said, err)
	}
	if got := h.Sh(t, "tail -n 1 /etc/cron.d/urifilter"); got != "# mine" {
		t.Errorf("undone: %s", got)
	}
}
