package e2e_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

var cronLine = regexp.MustCompile(`(?m)^0 0 1 \* \* (\S+) (.*)$`)

// tryCrontab runs the line of the crontab as cron does: in a shell, as its user, with the
// variables of the file and those that cron sets, and no others.
func tryCrontab(t *testing.T, o *operator) {
	for _, host := range []string{"one", "two"} {
		o.Crawler(host, 8000, o.token).Filter(t, "https://example.com/crontab/"+host)
		file := o.Sh(t, host, "cat /etc/cron.d/urifilter")
		m := cronLine.FindStringSubmatch(file)
		if m == nil || m[1] != "urifilter" {
			t.Fatalf("%s: crontab\n%s", host, file)
		}
		env := []string{"LOGNAME=urifilter", "USER=urifilter"}
		for _, v := range regexp.MustCompile(`(?m)^(\w+)="?(.*?)"?$`).FindAllStringSubmatch(file, -1) {
			env = append(env, v[1]+"="+v[2])
		}
		before := versions(t, o, host)
		if before == nil {
			t.Errorf("%s: the archive has no versions", host)
		}
		for i, e := range env {
			env[i] = quote(e)
		}
		o.Sh(t, host, "cd / && setpriv --reuid=urifilter --regid=urifilter --init-groups env -i "+strings.Join(env, " ")+" /bin/sh -c "+quote(strings.ReplaceAll(m[2], `\%`, "%")))
		after := versions(t, o, host)
		if after["uri"] == before["uri"] {
			t.Errorf("%s: the newest versions were %v and are %v", host, before, after)
		}
		log := o.Sh(t, host, "journalctl --sync; journalctl -t urifilter-writeback --no-pager -o cat")
		if !strings.Contains(log, after["uri"]) {
			t.Errorf("%s: journalctl -t urifilter-writeback does not name %s:\n%s", host, after["uri"], log)
		}
		t.Logf("%s: journalctl -t urifilter-writeback\n%s", host, log)
	}
}

// versions returns the newest version of each filter in the archive, each verified.
func versions(t *testing.T, o *operator, host string) map[string]string {
	t.Helper()
	text := o.Sh(t, host, "cd / && setpriv --reuid=urifilter --regid=urifilter --init-groups /opt/urifilter/current/urifilter bitmap verify --quiet --config /etc/urifilter/urifilter.yaml")
	t.Logf("%s: bitmap verify\n%s", host, text)
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^((\w+)-\d+): sound;`).FindAllStringSubmatch(text, -1) {
		found[m[2]] = m[1]
	}
	return found
}

// near gives the line to cron itself, to be run every minute and under another name, and
// returns a check that cron has run it.
func near(t *testing.T, o *operator, host string) func(*testing.T) {
	t.Helper()
	o.Crawler(host, 8000, o.token).Filter(t, "https://example.com/near")
	// cron compares times by the second: it must not see a file that is still empty, or miss one
	// that was created in the same second in which it looked.
	o.Sh(t, host, `sed 's/^0 0 1 /* * * /; s/--identifier=urifilter-writeback/--identifier=near-writeback/' /etc/cron.d/urifilter >/etc/cron.d/.near
mv /etc/cron.d/.near /etc/cron.d/near
sleep 1.1
touch /etc/cron.d`)
	return func(t *testing.T) {
		defer o.Sh(t, host, "rm -f /etc/cron.d/near")
		log := ""
		for until := time.Now().Add(3 * time.Minute); !strings.Contains(log, "uri-"); time.Sleep(time.Second) {
			if log = o.Sh(t, host, "journalctl -t near-writeback --no-pager -o cat"); time.Now().After(until) {
				t.Fatalf("cron has not run it:\n%s\n%s", log, o.Sh(t, host, "journalctl -u cron --no-pager; cat /etc/cron.d/near"))
			}
		}
		t.Log(log)
	}
}
