package e2e_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// watcher is a user without rights on a host who reads the process list all the time.
type watcher struct {
	o    *operator
	host string
}

// watching prints each command line, and each environment that it may read, once. It looks at each
// process in its first half second, and then once a second, in case it has begun to run another program.
const watching = `$| = 1; $SIG{TERM} = sub { exit };
my %looks;
while (1) {
	opendir my $proc, "/proc";
	%looks = map { ($_ => ($looks{$_} // 0) + 1) } grep /^[0-9]/, readdir $proc;
	for my $f (map { ("/proc/$_/cmdline", "/proc/$_/environ") } grep { $looks{$_} < 25 || $looks{$_} % 50 == 0 } keys %looks) {
		open my $h, "<", $f or next; local $/; my $t = <$h>; next unless length $t;
		$t =~ tr/\0\n/  /; print "$t\n" unless $seen{$t}++;
	}
	select undef, undef, undef, 0.02;
}
`

func watch(t *testing.T, o *operator, host string) *watcher {
	t.Helper()
	o.Sh(t, host, "install -d -o nobody /var/tmp/watch && cat >/var/tmp/watch/look.pl <<'END'\n"+watching+`END
systemd-run --quiet --unit=watcher --uid=nobody --property=StandardOutput=file:/var/tmp/watch/seen perl /var/tmp/watch/look.pl`)
	return &watcher{o, host}
}

// saw ends the watcher and returns what it saw.
func (w *watcher) saw(t *testing.T) string {
	t.Helper()
	return w.o.Sh(t, w.host, "systemctl stop watcher; cat /var/tmp/watch/seen; rm -r /var/tmp/watch")
}

// secret is a secret with the files of each host that may contain it. The owner and group of
// these files are checked, and that their mode keeps others out.
type secret struct {
	name, value string
	files       []string
}

// trySecrets runs everything that handles secrets, and looks for them wherever somebody who
// must not know them could look.
func trySecrets(t *testing.T, o *operator, seen map[string]*watcher) {
	archive := "archive-p4ss%2Fword"
	o.Environ = append(o.Environ, "E2E_MONGODB_URI=mongodb://crawler:"+archive+"@"+o.Hosts["one"].Address+":27017/?authMechanism=PLAIN")
	written := string(mustRead(t, filepath.Join(o.Dir, "configs", "hosts.yaml")))
	o.WriteInventory(t, strings.Replace(regexp.MustCompile(`(?s)mongodb:\n.*?\n(release:)`).ReplaceAllString(written, "mongodb: {uri_env: E2E_MONGODB_URI}\n$1"), ", mongodb]", "]", 1))
	for _, args := range [][]string{
		{"plan", "-v", "-hosts=one"}, {"update", "-v"}, {"bitmap_update", "-v"},
		{"urifilter:logs", "-lines=1000"}, {"urifilter:status", "-json"}, {"bitmap:status", "-json"}, {"ssh:check", "-v"},
	} {
		o.Must(t, args...)
	}
	if again := o.Must(t, "deploy", "-json", "-v").Summary(t); slices.ContainsFunc(again.Hosts, changed) {
		t.Errorf("a deployment after all that: %+v", again.Hosts)
	}

	operators := []string{"/etc/urifilter/operator.token"}
	secrets := []secret{
		{"the password of sudo", o.Password, nil},
		{"a crawler's token", o.token, nil},
		{"the password of the archive", archive, []string{"/etc/urifilter/urifilter.yaml"}},
		{"the token of host one", o.Sh(t, "one", "cat /etc/urifilter/operator.token"), operators},
		{"the token of host two", o.Sh(t, "two", "cat /etc/urifilter/operator.token"), operators},
		{"the password of Redis", o.Sh(t, "one", "cat /etc/urifilter/redis.password"), []string{"/etc/urifilter/redis.password", "/etc/redis/urifilter.secret.conf"}},
	}
	shown := strings.Join(o.shown, "\n")
	places := map[string]string{"what the targets have shown": shown, "the operator's own records": records(t, o)}
	for host := range o.Hosts {
		list := seen[host].saw(t)
		for _, command := range []string{"urifilter serve --config", "urifilter bitmap update", "sshd: "} {
			if !strings.Contains(list, command) {
				t.Errorf("nobody on %s has seen %q run", host, command)
			}
		}
		places["the process list of "+host] = list
		places["the journal of "+host] = o.Sh(t, host, "journalctl --sync; journalctl --all --output=export --no-pager; dmesg 2>/dev/null | tail -200; find /var/log -type f ! -path '*/journal/*' -exec cat {} +")
	}
	for place, text := range places {
		if len(text) < 1000 {
			t.Errorf("%s: only %d bytes to look at", place, len(text))
		}
		for _, s := range secrets {
			if len(s.value) < 8 {
				t.Fatalf("%s is %q", s.name, s.value)
			}
			if s.name == "a crawler's token" && place == "what the targets have shown" {
				if n := strings.Count(text, s.value); n != 1 { // once, when it was made
					t.Errorf("%s has %s %d times", place, s.name, n)
				}
				continue
			}
			if at := strings.Index(text, s.value); at >= 0 {
				t.Errorf("%s has %s: ...%s...", place, s.name, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	for host := range o.Hosts {
		var patterns []string
		for _, s := range secrets {
			patterns = append(patterns, "-e "+quote(s.value))
		}
		for line := range strings.Lines(o.Sh(t, host, "grep -rlFs "+strings.Join(patterns, " ")+` --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev / | while read -r f; do stat -c '%n|%A|%U:%G' "$f"; done`)) {
			found := strings.Split(strings.TrimSpace(line), "|")
			path, mode, owner := found[0], found[1], found[2]
			text := o.Sh(t, host, "cat "+quote(path))
			for _, s := range secrets {
				switch {
				case !strings.Contains(text, s.value):
				case !slices.Contains(s.files, strings.TrimSuffix(path, ".bak")) || !strings.HasSuffix(mode, "---") || !slices.Contains([]string{"root:urifilter", "root:root", "redis:redis", "root:redis"}, owner):
					t.Errorf("%s of %s has %s: mode %s, %s", path, host, s.name, mode, owner)
				default:
					t.Logf("%s: %s in %s, %s %s", host, s.name, path, mode, owner)
				}
			}
		}
	}
}

// records returns the contents of all files of the operator.
func records(t *testing.T, o *operator) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{o.Dir, o.Home} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			all.WriteString(path + "\n" + string(data) + "\n")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
