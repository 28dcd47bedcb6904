package e2e_test

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// fingerprint prints what a deployment may change on a host: programs, links, settings, units
// and which release runs. It leaves out the process, which is another one after a rollback.
const fingerprint = `readlink /opt/urifilter/current
cd /etc && find urifilter systemd/system/urifilter* -type f ! -name '*.bak*' ! -name '*~' -exec sha256sum {} + | sort -k2
systemctl is-active urifilter.service urifilter.socket
readlink /proc/$(systemctl show urifilter -p MainPID --value)/exe
systemctl show urifilter.socket -p Listen`

// bounded is far more than detecting a fault and rolling back takes: nothing waits forever.
const bounded = 4 * time.Minute

// tryBrokenReleases: whatever is wrong with a release is detected on the first host within
// bounded time, that host is rolled back to what it ran before, and the other one is not
// touched.
func tryBrokenReleases(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "a"}, {Name: "b"}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
		More:     "fleet: {health_timeout: 30s, bake: 20s}\n",
	})
	good := l.Inventory(t)
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)

	t.Run("first of all", func(t *testing.T) {
		r := l.Mage(t, "deploy", "-hosts=a", "-binary="+l.Broken(t, programs.Exit))
		want(t, r, fleet.CodeFailed, "a: service: running", "the daemon does not stay up", "I exit at once, as the test wants it",
			"there was no daemon before: it is stopped")
		left := l.Sh(t, "a", "systemctl is-active urifilter.service urifilter.socket urifilter-retry.timer; ls -d /opt/urifilter/current /etc/systemd/system/urifilter* /etc/systemd/system/*.wants/urifilter* 2>/dev/null; ss -Hltn sport = :8000; :")
		if left != "inactive\ninactive\ninactive" {
			t.Errorf("half of it is there:\n%s", left)
		}
	})

	// Good releases are watched for a shorter time than the broken ones, one of which works for
	// eight seconds.
	l.WriteInventory(t, strings.Replace(good, "bake: 20s", "bake: 1s", 1))
	l.Must(t, "deploy")
	l.WriteInventory(t, good)
	before := map[string]string{}
	for _, host := range []string{"a", "b"} {
		l.Crawler(host, 8000, token).Filter(t, "https://example.com/before")
		before[host] = l.Sh(t, host, fingerprint)
	}
	marked := l.Sh(t, "a", `grep -l '"healthy"' /opt/urifilter/releases/*/manifest.json`)
	// after checks what must hold after each failed deployment.
	after := func(t *testing.T, r e2e.Result, other string) {
		t.Helper()
		if r.Took > bounded {
			t.Errorf("it took %s", r.Took)
		}
		if now := l.Sh(t, "a", `grep -l '"healthy"' /opt/urifilter/releases/*/manifest.json`); now != marked {
			t.Errorf("marked as healthy: %s", now)
		}
		for host, was := range before {
			if now := l.Sh(t, host, fingerprint); now != was {
				t.Errorf("%s has changed from\n%s\nto\n%s", host, was, now)
			}
			if fresh := l.Crawler(host, 8000, token).Filter(t, "https://example.com/before"); len(fresh) != 0 {
				t.Errorf("%s: forgotten", host)
			}
			if left := l.Sh(t, host, "ls -d /opt/urifilter/releases/.staged-* 2>/dev/null; :"); left != "" {
				t.Errorf("%s: left behind: %s", host, left)
			}
		}
		if n := l.Sh(t, "b", "ls /opt/urifilter/releases | wc -l"); n != "1" {
			t.Errorf("b has %s releases", n)
		}
		if other != "" && !regexp.MustCompile(`(?m)^b +`+other+` +0 `).MatchString(r.Stdout) {
			t.Errorf("b is not %q", other)
		}
	}
	for mode, says := range map[string]string{
		programs.Exit:      "I exit at once, as the test wants it",
		programs.Silent:    "the daemon is still activating after 30s",
		programs.Answer500: "500",
		programs.Hang:      "not ready after 30s",
		programs.Brief:     "was healthy and has ended",
		programs.Forgetful: "the filter reported the same item as new twice",
	} {
		t.Run(mode, func(t *testing.T) {
			r := l.Mage(t, "deploy", "-binary="+l.Broken(t, mode))
			want(t, r, fleet.CodeFailed, says, "journalctl -u urifilter says:", "systemd[1]: Starting urifilter.service", "rolled back: release", "hint: go tool mage urifilter:logs -hosts=a")
			after(t, r, "not started")
		})
	}
	t.Run("late, with other settings and units", func(t *testing.T) {
		t.Cleanup(func() { l.WriteInventory(t, good) })
		l.WriteInventory(t, strings.Replace(good, "0.0.0.0:8000", "0.0.0.0:8001", 1)+"service: {open_files: 65536}\n")
		r := l.Mage(t, "deploy", "-binary="+l.Broken(t, programs.Late))
		want(t, r, fleet.CodeFailed, "the daemon does not stay up", "I exit a little later", "rolled back: release", "/etc/urifilter/urifilter.yaml is as it was before", "the units are as they were before", "limits are as they were before")
		after(t, r, "not started")
	})

	for what, c := range map[string]struct {
		program []byte
		code    int
		says    string
		other   string // what became of the other host; "": not checked
	}{
		"for another processor": {foreign(t, l.Program(t)), fleet.CodeUsage, "it is for ", "failed"},
		"truncated":             {read(t, l.Program(t))[:1<<20], fleet.CodeUsage, "it is damaged or cut off", ""},
		"damaged":               {damaged(t, l.Program(t)), fleet.CodeFailed, "does not run on the host", "not started"},
		"something else":        {read(t, "/bin/echo"), fleet.CodeFailed, "is not urifilter: its version command prints", "not started"},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "urifilter")
			if err := os.WriteFile(path, c.program, 0o755); err != nil {
				t.Fatal(err)
			}
			r := l.Mage(t, "deploy", "-binary="+path)
			want(t, r, c.code, c.says)
			after(t, r, c.other)
		})
	}
}

// want checks the exit code of a target and what it said.
func want(t *testing.T, r e2e.Result, code int, says ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d", r.Code, code)
	}
	for _, s := range says {
		if !strings.Contains(r.Text(), s) {
			t.Errorf("it does not say %q", s)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// foreign returns a program whose header says that it is for another processor.
func foreign(t *testing.T, path string) []byte {
	t.Helper()
	data := read(t, path)
	machine := elf.EM_AARCH64
	if elf.Machine(binary.LittleEndian.Uint16(data[18:])) == machine {
		machine = elf.EM_X86_64
	}
	binary.LittleEndian.PutUint16(data[18:], uint16(machine))
	return data
}

// damaged returns a program whose header is good and whose code is gone.
func damaged(t *testing.T, path string) []byte {
	t.Helper()
	data := read(t, path)
	clear(data[0x1000 : len(data)/2])
	return data
}
