package apt

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cr-clawer/urifilter/provision/host"
)

func TestLockHolder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?\n": "unattended-upgr (process 812)",
		"E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7\nE: Unable to lock directory /var/lib/apt/lists/\n":                                                                                 "process 7",
		"E: Could not get lock /var/lib/apt/lists/lock - open (11: Resource temporarily unavailable)\n":                                                                                                             "another program",
		"E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?\n":                        "",
		"E: Unable to locate package x\n": "",
		held:                              "process 28898",
		"dpkg: error: dpkg frontend is locked by another process\nE: Sub-process dpkg --set-selections returned an error code (2)\nE: Executing dpkg failed. Are you root?\n": "another program", // older versions of dpkg
	} {
		got, locked := lockHolder(text)
		if got != want || locked != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", text, got, locked, want)
		}
	}
}

// held is what apt-mark says while another program has the lock.
const held = `dpkg: error: dpkg frontend lock was locked by another process with pid 28898
Note: removing the lock file is always wrong, can damage the locked area
and the entire system. See <https://wiki.debian.org/Teams/Dpkg/FAQ#db-lock>.
E: Sub-process dpkg --set-selections returned an error code (2)
E: Executing dpkg failed. Are you root?
`

// marking is a host on which another program has the lock for some tries.
type marking struct {
	host.Host
	locked int
}

func (h *marking) Run(_ context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "dpkg-query"):
		return host.Output{Stdout: "mongodb-org installed 8.0.4\n"}, nil
	case strings.Contains(c.Script, "apt-mark hold"):
		if h.locked--; h.locked >= 0 {
			out := host.Output{Stderr: held, Code: 100}
			if !slices.Contains(c.OK, 100) {
				return out, &host.CommandError{Output: out}
			}
			return out, nil
		}
	}
	return host.Output{}, nil
}

// Updates of the system may begin just after an installation: packages are held when they have ended.
func TestHoldWaitsForTheLock(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]string{3: "", 1000: "apt-mark: process 28898 has held the lock for 5m"} {
		synctest.Test(t, func(t *testing.T) {
			h := &marking{locked: tries}
			c, err := Hold("mongodb: version", "mongodb-org").Look(t.Context(), h)
			if err != nil || c == nil {
				t.Fatal(c, err)
			}
			if err := c.Apply(t.Context()); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("locked for %d tries: %v", tries, err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.":                    "hint: an installation was broken off",
		"Reading...\nE: Unable to locate package redis-servr\n":                                                           "apt-get: Unable to locate package redis-servr\nhint: no repository",
		"E: Packages need to be removed but remove is disabled.":                                                          "never does",
		"W: GPG error: x NO_PUBKEY 123\nE: The repository 'x' is not signed.":                                             "hint: the key does not belong",
		"W: GPG error: x: The following signatures were invalid: BADSIG 9BF7\nE: The repository 'x' is not signed.":       "hint: what the repository gives is not what its owner has signed",
		"W: OpenPGP signature verification failed: x: Message has been manipulated\nE: The repository 'x' is not signed.": "hint: what the repository gives is not what its owner has signed",
		"E: Failed to fetch http://x/y.deb  Temporary failure resolving 'x'":                                              "a bundle where there is no network",
		"E: Write error - write (28: No space left on device)":                                                            "disk of the host is full",
		"something new": "apt-get: something new\nhint: /var/log/apt/term.log",
		"":              "it wrote nothing",
	} {
		if got := explain("apt-get", text).Error(); !strings.Contains(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s in it", text, got, want)
		}
	}
}

func TestParseInstalled(t *testing.T) {
	t.Parallel()
	got := parseInstalled("cron installed 3.0pl1-162\nredis-server not-installed \nredis-tools config-files 5:7.0\nhalf half-installed 1\n")
	if len(got) != 1 || got["cron"] != "3.0pl1-162" {
		t.Errorf("got %v, want cron alone", got)
	}
}

// The message about a list that was not refreshed says why.
func TestComplaints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Err:1 http://x trixie InRelease\n  Unable to connect to x:\nReading package lists...\nW: Failed to fetch http://x/InRelease  Unable to connect to x:\nW: Some index files failed to download. They have been ignored, or old ones used instead.\n": "Failed to fetch http://x/InRelease  Unable to connect to x:",
		"Err:1 http://x trixie InRelease\n  Unable to connect to x:\n": "http://x trixie InRelease",
		"killed\n": "killed",
	} {
		if got := complaints(text).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAudited(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The following packages are only half configured, probably due to problems\nconfiguring them the first time.  The configuration should be retried using\ndpkg --configure <package> or the configure menu option in dselect:\n redis-server         Persistent key-value database\n cron                 process scheduling daemon\n": "not installed as a whole: cron, redis-server",
		"an update of the package database was broken off: /var/lib/dpkg/updates/0001": "an update of the package database was broken off: /var/lib/dpkg/updates/0001",
	} {
		if got := audited(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	good := host.Facts{OS: "debian", Version: "12", Arch: "amd64", Systemd: 252}
	if err := Supported(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*host.Facts){
		"system is Rocky Linux 9.4 (Blue Onyx): want Debian 11, 12, 13 or Ubuntu 20.04, 22.04, 24.04 (tested: Debian 12, Debian 13)": func(f *host.Facts) { f.OS, f.Version, f.Name = "rocky", "9.4", "Rocky Linux 9.4 (Blue Onyx)" },
		"system is debian: want":       func(f *host.Facts) { f.Version = "" },
		"system is ubuntu 23.10: want": func(f *host.Facts) { f.OS, f.Version = "ubuntu", "23.10" },
		"processor is riscv64: want":   func(f *host.Facts) { f.Arch = "riscv64" },
		"no systemd runs on it":        func(f *host.Facts) { f.Systemd = 0 },
	} {
		f := good
		change(&f)
		if err := Supported(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q in it", f, err, want)
		}
	}
}

func TestRepositoryValidate(t *testing.T) {
	t.Parallel()
	good := Repository{Name: "mongodb", URL: "https://repo.example/apt/debian", Suite: "bookworm/mongodb-org/8.0", Component: "main", Key: []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Repository){
		"url: want an address":              func(r *Repository) { r.URL = "repo.example/apt" },
		`scheme "ftp"`:                      func(r *Repository) { r.URL = "ftp://repo.example/" },
		"it holds a user or password":       func(r *Repository) { r.URL = "https://a:b@repo.example/" },
		"url: want an address such as":      func(r *Repository) { r.URL = "https://repo.example/a b" },
		`name "../x"`:                       func(r *Repository) { r.Name = "../x" },
		`suite "a\nTypes: deb"`:             func(r *Repository) { r.Suite = "a\nTypes: deb" },
		`component "": want one`:            func(r *Repository) { r.Component = "" },
		`component "main": a suite that`:    func(r *Repository) { r.Suite = "stable/" },
		"key: want a public OpenPGP key":    func(r *Repository) { r.Key = []byte("<html>404</html>") },
		"key: want a public OpenPGP key, a": func(r *Repository) { r.Key = nil },
	} {
		r := good
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q in it", r, err, want)
		}
	}
	flat := Repository{Name: "x", URL: "file:///srv/debs", Suite: "./", Key: []byte{0x99, 1, 0x0d, 4}}
	if err := flat.Validate(); err != nil || flat.keyPath() != "/etc/apt/keyrings/urifilter-x.gpg" || strings.Contains(flat.source(), "Components") {
		t.Errorf("flat: %v\n%s", err, flat.source())
	}
}
