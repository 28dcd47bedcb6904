package e2e_test

import (
	"strings"
	"testing"
)

// others is what people other than the toolkit's users have on the hosts: crontabs, limits, and
// lines of their own in configuration files.
type others struct {
	o      *operator
	before map[string]string // by host
}

// settle has others use the hosts before the toolkit comes. On one, somebody has already
// installed and set up cron and Redis; on two, cron is not installed.
func settle(t *testing.T, o *operator) *others {
	t.Helper()
	const all = `set -e
mkdir -p /etc/cron.d
cat >/etc/cron.d/other <<'END'
0 4 * * * root echo other >/dev/null
END
mkdir -p /etc/security/limits.d
echo '* soft nofile 2048 # of the administrators' >>/etc/security/limits.conf
echo 'redis hard nofile 70000' >/etc/security/limits.d/90-other.conf
mkdir -p /etc/urifilter
cat >/etc/urifilter/urifilter.yaml <<'END'
# Ask the administrators before you change this.
log:
    level: warn      # debug fills the disk
limits: {items: 50000} # a crawler sends no more
END
`
	o.Sh(t, "one", all+`apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install cron redis-server >/dev/null 2>&1
crontab - <<'END'
# m h  dom mon dow   command
17 3 * * * echo "50\% of it" >/dev/null # of the administrators
END
sed -i 's/^databases 16$/databases 17/' /etc/redis/redis.conf
printf '# of the administrators\nslowlog-max-len 321\n' >>/etc/redis/redis.conf
systemctl restart redis-server`)
	o.Sh(t, "two", all)
	s := &others{o: o, before: map[string]string{}}
	for host := range o.Hosts {
		s.before[host] = s.now(t, host)
	}
	return s
}

// now returns the current state of what is theirs on a host.
func (s *others) now(t *testing.T, host string) string {
	t.Helper()
	return s.o.Sh(t, host, `cd / && for f in $(ls var/spool/cron/crontabs/root 2>/dev/null) etc/cron.d/other etc/security/limits.conf etc/security/limits.d/90-other.conf; do stat -c '%n %a %U:%G %y' $f; cat $f; done
grep -E '^# Ask the|level: warn +# debug|^limits: .* # a crawler' etc/urifilter/urifilter.yaml
[ ! -e etc/redis/redis.conf ] || { stat -c '%n %a %U:%G' etc/redis/redis.conf; sed '/urifilter/,$d; /^$/d' etc/redis/redis.conf; }`)
}

// same checks that all of it is unchanged and in force.
func (s *others) same(t *testing.T, when string) {
	t.Helper()
	for host, before := range s.before {
		if now := s.now(t, host); now != before {
			t.Errorf("%s, %s: what others have there was\n%s\nand is\n%s", host, when, tail(before), tail(now))
		}
	}
	if got := s.o.Sh(t, "one", `REDISCLI_AUTH=$(cat /etc/urifilter/redis.password) redis-cli config get slowlog-max-len; REDISCLI_AUTH=$(cat /etc/urifilter/redis.password) redis-cli config get databases`); got != "slowlog-max-len\n321\ndatabases\n17" {
		t.Errorf("%s: Redis has %q", when, got)
	}
	if got := s.o.Sh(t, "two", "/opt/urifilter/current/urifilter config show --config /etc/urifilter/urifilter.yaml | grep -E 'level|  items:'"); !strings.Contains(got, "level: warn") || !strings.Contains(got, "50000") {
		t.Errorf("%s: the daemon's settings have\n%s", when, got)
	}
}

// tail spares the reader the first part of a long text.
func tail(text string) string {
	if lines := strings.Split(text, "\n"); len(lines) > 40 {
		return "...\n" + strings.Join(lines[len(lines)-40:], "\n")
	}
	return text
}
