package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// makeToken writes 32 random bytes, which never leave the host by this. printf is a part
// of the shell: what it prints is in no process list.
const makeToken = `umask 077
t=$(mktemp %s) || exit
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
secret=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
[ ${#secret} = 64 ] || { echo "/dev/urandom gave too little" >&2; exit 1; }
printf '%%s\n' "$secret" >"$t" && sync "$t" && chown %s "$t" && chmod 0640 "$t" && mv -Tf "$t" %s`

var wholeToken = regexp.MustCompile(`^[0-9a-f]{64}\n?$`)

// CallerToken is the file, in the folder of the settings of a daemon, with the token of
// another program that calls it.
func CallerToken(caller string) string { return caller + ".token" }

// token makes the token of somebody in a file of the folder of the settings.
func (o Options) token(of, name string) step.Wish {
	path := o.Config + "/" + name
	return step.NewWish("environment: "+of+" token", func(ctx context.Context, h host.Host) (*step.Change, error) {
		f, there, err := host.ReadFile(ctx, h, path)
		if err != nil {
			return nil, err
		}
		owner := "root:" + o.Group
		right := f.Mode == 0o640 && f.Owner+":"+f.Group == owner
		switch {
		case there && wholeToken.MatchString(f.Content) && right:
			return nil, nil
		case there && wholeToken.MatchString(f.Content):
			return &step.Change{Summary: fmt.Sprintf("let only %s read %s", owner, path), Apply: func(ctx context.Context) error {
				_, err := h.Run(ctx, host.Command{Script: fmt.Sprintf("chown %s %s && chmod 0640 %[2]s", host.Quote(owner), host.Quote(path)), Root: true})
				return err
			}}, nil
		}
		return &step.Change{Summary: "make " + path, Apply: func(ctx context.Context) error {
			script := fmt.Sprintf(makeToken, host.Quote(path+".XXXXXX"), host.Quote(owner), host.Quote(path))
			_, err := h.Run(ctx, host.Command{Script: script, Root: true, Secret: true})
			return err
		}}, nil
	})
}

// OperatorToken reads the token in a file, by which the host's own jobs call a daemon: the
// monthly writeback and the toolkit's health check; "" where it has not been made.
func OperatorToken(ctx context.Context, h host.Host, path string) (string, error) {
	f, there, err := host.ReadFile(ctx, h, path)
	if err != nil || !there {
		return "", err
	}
	if !wholeToken.MatchString(f.Content) {
		return "", fmt.Errorf("%s: want 64 hexadecimal digits\nhint: remove the file and run `go tool mage install:env`, which makes another", f.Path)
	}
	return strings.TrimSpace(f.Content), nil
}

// Digest is how a tokens file lists a token without telling it.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}
