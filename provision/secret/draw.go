package secret

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Draw is shell script text that puts a new secret into $secret: 32 random bytes, as 64
// hexadecimal digits.
const Draw = `secret=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
[ ${#secret} = 64 ] || { echo "/dev/urandom gave too little" >&2; exit 1; }`

var drawn = regexp.MustCompile(`^[0-9a-f]{64}\n?$`)

// IsDrawn reports whether a text is what Draw makes, with or without a line end.
func IsDrawn(text string) bool { return drawn.MatchString(text) }

// File is where a host keeps a secret.
type File struct {
	Path      string
	Temporary string // in the same folder: a template of mktemp
	Before    string // what precedes the secret on its line; no % and no quotes
	Owner     string // root:group
	Mode      string // of chmod
}

// Script returns a script that draws a secret and writes it into the file, which it replaces whole.
// The secret does not leave the host. printf is a shell builtin: its output is in no process list.
func (f File) Script() string {
	return fmt.Sprintf(`umask 077
t=$(mktemp %s) || exit
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
%s
printf '%s%%s\n' "$secret" >"$t" && sync "$t" && chown %s "$t" && chmod %s "$t" && mv -Tf "$t" %s`,
		host.Quote(f.Temporary), Draw, f.Before, host.Quote(f.Owner), f.Mode, host.Quote(f.Path))
}

// Read reads the secret that a host has drawn into a file, or returns ErrNoPassword. hint says what to do about a file
// that holds something else.
func Read(ctx context.Context, h host.Host, path, hint string) (string, error) {
	f, there, err := host.ReadFile(ctx, h, path)
	switch {
	case err != nil:
		return "", err
	case !there:
		return "", ErrNoPassword
	case !IsDrawn(f.Content):
		return "", fmt.Errorf("%s: want 64 hexadecimal digits\nhint: %s", path, hint)
	}
	return strings.TrimSpace(f.Content), nil
}
