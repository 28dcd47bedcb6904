package remote

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// loader is what the login shell of a host runs, whatever shell it is: the text contains
// nothing that any of them (sh, bash, zsh, fish, csh) would change within single quotes. It
// says on both outputs that it has begun, which separates what start-up files write from
// what the command writes. Then it reads lines until one with the same word, which skips a
// password that sudo did not ask for; then the script, which thus may be of any length and
// appears in no list of processes. What follows is for the script.
//
// Commands keep the word in their environment, by which they are found when they must be ended.
//
// $0 is the word, $1 the number of the script's lines, $2 is "1" if nothing follows.
const loader = `LC_ALL=C; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; DEBIAN_FRONTEND=noninteractive; ` +
	`TOOLKIT_RUN=$0; export LC_ALL PATH DEBIAN_FRONTEND TOOLKIT_RUN; umask 022; cd /; ` +
	`echo "$0"; echo "$0" >&2; ` +
	`_l=; until [ "$_l" = "$0" ]; do IFS= read -r _l || exit 125; done; ` +
	`_n=$1; _e=$2; _s=; _r=$(printf "\nx"); _r=${_r%x}; ` +
	`while [ "$_n" -gt 0 ]; do IFS= read -r _l || exit 125; _s=$_s$_l$_r; _n=$((_n-1)); done; ` +
	`shift 2; [ "$_e" = 1 ] && exec </dev/null; unset _l _n _e _r; eval "$_s"`

// shortLoader is the loader for a short script without input. The script is the
// argument $1, in base64, which no shell changes: sshd accepts no input before it has begun to run a
// command, so that a script that is sent after it comes a round trip later. Scripts have no secrets in them.
const shortLoader = `LC_ALL=C; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; DEBIAN_FRONTEND=noninteractive; ` +
	`TOOLKIT_RUN=$0; export LC_ALL PATH DEBIAN_FRONTEND TOOLKIT_RUN; umask 022; cd /; ` +
	`echo "$0"; echo "$0" >&2; _s=$(printf %s "$1" | base64 -d) || exit 125; shift; exec </dev/null; eval "$_s"`

// mostShort bounds such a script, in bytes: some shells have short words.
const mostShort = 8 << 10

// shortLine is commandLine for a short script.
func shortLine(as, word, script string) string {
	return fmt.Sprintf("exec env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin %s/bin/sh -c '%s' %s %s",
		as, shortLoader, word, base64.StdEncoding.EncodeToString([]byte(script)))
}

// commandLine returns what sshd must run; as is the prefix that changes the user, if any.
func commandLine(as, word string, lines int, noInput bool) string {
	empty := 0
	if noInput {
		empty = 1
	}
	return fmt.Sprintf("exec env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin %s/bin/sh -c '%s' %s %d %d",
		as, loader, word, lines, empty)
}

// preamble returns what the loader reads, up to where the command's own input begins.
func preamble(word, script string) string { return word + "\n" + script + "\n" }

func linesOf(script string) int { return strings.Count(script, "\n") + 1 }

// newWord returns a word that no host writes by itself.
func newWord() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return "urifilter-" + hex.EncodeToString(random[:])
}
