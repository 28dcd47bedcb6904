package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs"
)

// localHeader begins a tokens file on the operator's machine.
const localHeader = `# Tokens of the daemons, for go tool mage settings:push. It holds digests:
# a token itself is shown once, when go tool mage settings:token makes it.
`

// MakeToken adds a token to the operator's tokens file, which is created if it does not exist,
// and returns its secret, which is stored nowhere. Scopes are some of those allowed. A name
// that exists requires replace; its old secret becomes invalid when the file is pushed.
func MakeToken(path, name string, scopes, allowed []string, replace bool) (secret string, err error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return "", fmt.Errorf("token name %q: want a word for whoever uses it\nhint: go tool mage settings:token -name=crawler -scopes=filter", name)
	}
	if name == operator {
		return "", fmt.Errorf("token name %s: taken by the token that each host makes for itself", operator)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(localHeader)
	} else if err != nil {
		return "", err
	}
	items, err := parseEntries(path, string(text))
	if err != nil {
		return "", err
	}
	if !replace && slices.ContainsFunc(items, func(i item) bool { return i.name == name }) {
		return "", fmt.Errorf("%s: token %s already exists\nhint: -replace gives it a new secret; or choose another -name", path, name)
	}
	secret, made := configs.NewToken(name, scopes)
	after, err := editTokens(path, string(text), []entry{{name, made.Digest(), scopes}}, nil)
	if err != nil {
		return "", err
	}
	if err := writePrivate(path, after); err != nil {
		return "", err
	}
	// What the daemon would refuse is refused here, and the file is restored.
	if _, _, err := configs.LoadTokensOf(path, allowed); err != nil {
		return "", errors.Join(err, undoLocal(path, text))
	}
	return secret, nil
}

func undoLocal(path string, before []byte) error {
	if string(before) == localHeader {
		return os.Remove(path)
	}
	return writePrivate(path, string(before))
}

// writePrivate replaces a file in one step; nobody else can read it.
func writePrivate(path, text string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temp.WriteString(text)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
