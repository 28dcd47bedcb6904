package apt

import (
	"regexp"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
)

// known lists faults with a known next step.
var known = []struct {
	sign *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`dpkg was interrupted|dpkg --configure -a`), "an installation was broken off on the host; `dpkg --configure -a` as root ends it"},
	{regexp.MustCompile(`Unmet dependencies\. Try 'apt --fix-broken|apt --fix-broken install`), "packages of the host are half installed; see what `apt-get --fix-broken --simulate install` would do, then do it"},
	{regexp.MustCompile(`remove is disabled`), "the installation would remove packages of the host, which the toolkit never does; see what `apt-get --simulate install` says"},
	{regexp.MustCompile(`held broken packages|Held packages were changed`), "packages of the host are held or from another release; `apt-mark showhold` and `apt-get --simulate install` show which"},
	{regexp.MustCompile(`unmet dependencies`), "the repositories of the host do not fit together; `apt-get --simulate install` says what is missing"},
	{regexp.MustCompile(`Unable to locate package|has no installation candidate`), "no repository of the host has it; look at /etc/apt/sources.list and sources.list.d, or give a repository or a bundle in the inventory"},
	{regexp.MustCompile(`BADSIG|Message has been manipulated|Bad signature|BAD signature`), "what the repository gives is not what its owner has signed: a mirror or proxy on the way has changed it, or is being renewed right now; if it stays so in some minutes, ask who runs it, and install nothing from there"},
	{regexp.MustCompile(`NO_PUBKEY|EXPKEYSIG|is not signed|not available for verification`), "the key does not belong to that repository, or has run out; see the repository's key in the inventory"},
	{regexp.MustCompile(`does not have a Release file`), "the address, or the suite, of the repository is wrong"},
	{regexp.MustCompile(`Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Connection timed out|Connection failed`), "the host does not reach its repositories; give a proxy or a mirror in the inventory, or a bundle where there is no network"},
	{regexp.MustCompile(`No space left on device|You don't have enough free space`), "the disk of the host is full; `df -h /var` and `apt-get clean`"},
	{regexp.MustCompile(`Hash Sum mismatch|File has unexpected size`), "a mirror is changing or a proxy gives old files; run the same again in some minutes"},
	{regexp.MustCompile(`Permission denied|are you root`), "this needs root; see sudo in the inventory"},
	{regexp.MustCompile(`returned an error code|error processing package`), "a package's own script failed; `journalctl -xe` and /var/log/apt/term.log on the host say why"},
}

// fault is an error of apt-get, and the next step.
type fault struct{ what, hint string }

func (f *fault) Error() string { return f.what + "\nhint: " + f.hint }

// lists matches errors that may be due to old lists.
var lists = regexp.MustCompile(`Unable to locate package|has no installation candidate|unmet dependencies|Failed to fetch`)

// explain makes an error from the output of apt-get.
func explain(text string) error {
	var lines []string
	for _, m := range errorLines.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.TrimSpace(m[1]))
	}
	if len(lines) == 0 {
		lines = []string{host.LastLine(text)}
	}
	return &fault{"apt-get: " + strings.Join(lines[:min(3, len(lines))], "; "), hintOf(text, "/var/log/apt/term.log on the host has the whole")}
}

// hintOf returns the known next step for the output of apt-get, or other.
func hintOf(text, other string) string {
	for _, k := range known {
		if k.sign.MatchString(text) {
			return k.hint
		}
	}
	return other
}
