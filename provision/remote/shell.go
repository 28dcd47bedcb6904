package remote

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// loader is what the login shell of a host is told to run, whatever shell it is: the text
// has nothing in it that any of them (sh, bash, zsh, fish, csh) would touch within single
// quotes. It says that it has begun, on both outputs, so that what start-up files write
// is told from what the command writes. Then it reads lines until one with the same word,
// which leaves out a password that sudo did not ask for; then the script, which thus may
// be of any length and stands in no list of processes. What follows is for the script.
//
// Commands keep the word in their environment, to be found when they are to be ended.
//
// $0 is the word, $1 the number of the script's lines, $2 is "1" if nothing follows.
const loader = `LC_ALL=C; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; DEBIAN_FRONTEND=noninteractive; ` +
	`TOOLKIT_RUN=$0; export LC_ALL PATH DEBIAN_FRONTEND TOOLKIT_RUN; umask 022; cd /; ` +
	`echo "$0"; echo "$0" >&2; ` +
	`_l=; until [ "$_l" = "$0" ]; do IFS= read -r _l || exit 125; done; ` +
	`_n=$1; _e=$2; _s=; _r=$(printf "\nx"); _r=${_r%x}; ` +
	`while [ "$_n" -gt 0 ]; do IFS= read -r _l || exit 125; _s=$_s$_l$_r; _n=$((_n-1)); done; ` +
	`shift 2; [ "$_e" = 1 ] && exec </dev/null; unset _l _n _e _r; eval "$_s"`

// commandLine is what sshd is told to run; as is what takes another user's place, if any.
func commandLine(as, word string, lines int, noInput bool) string {
	empty := 0
	if noInput {
		empty = 1
	}
	return fmt.Sprintf("exec env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin %s/bin/sh -c '%s' %s %d %d",
		as, loader, word, lines, empty)
}

// input is what the loader reads, up to where the command's own input begins.
func input(word, script string) string { return word + "\n" + script + "\n" }

func linesOf(script string) int { return strings.Count(script, "\n") + 1 }

// newWord is unlike any word that a host may write by itself.
func newWord() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return "urifilter-" + hex.EncodeToString(random[:])
}
