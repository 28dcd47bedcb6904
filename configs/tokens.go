package configs

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs/fault"
	"github.com/cr-clawer/urifilter/configs/strict"
)

// minToken is the length below which a token could be guessed by trying.
const minToken = 16

// Token is one entry of the tokens file. It holds the digest of its secret only.
type Token struct {
	// Name says in logs whose token it is.
	Name string
	// Scopes are what its bearer may do, of read, filter, forget and admin, as they were
	// given: the api decides whether one includes another.
	Scopes []string

	digest [sha256.Size]byte
}

// Digest returns the form of the token for a tokens file that does not reveal its secret.
func (t Token) Digest() string { return "sha256:" + hex.EncodeToString(t.digest[:]) }

// Tokens are all entries of a tokens file. They do not change, so they are safe
// for concurrent use.
type Tokens []Token

// Scopes returns the scopes that a token can have.
func Scopes() []string { return []string{"read", "filter", "forget", "admin"} }

// NewToken makes a secret that nobody can guess, and its entry for a tokens file.
func NewToken(name string, scopes []string) (secret string, entry Token) {
	random := make([]byte, 24)
	_, _ = rand.Read(random) // it never fails
	secret = hex.EncodeToString(random)
	return secret, TokenOf(name, scopes, secret)
}

// TokenOf returns the token with an existing secret.
func TokenOf(name string, scopes []string, secret string) Token {
	return Token{Name: name, Scopes: slices.Clone(scopes), digest: sha256.Sum256([]byte(secret))}
}

// LoadTokens reads a tokens file. It refuses unknown keys and scopes, tokens under
// 16 characters, those of the shipped example, and names or tokens that appear twice;
// its errors show no token.
// Warnings are about a file that users other than its owner and group can read, or that
// users other than its owner can write.
func LoadTokens(path string) (tokens Tokens, warnings []string, err error) {
	return LoadTokensOf(path, Scopes())
}

// LoadTokensOf is LoadTokens for a program whose tokens have other scopes.
func LoadTokensOf(path string, scopes []string) (tokens Tokens, warnings []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, nil, err
	}
	tokens, err = ParseTokensOf(path, data, scopes)
	if mode := info.Mode().Perm(); mode&0o026 != 0 && runtime.GOOS != "windows" {
		warnings = append(warnings, fmt.Sprintf("%s: mode %#o lets other users read or change the tokens: chmod 0640 or 0600", path, mode))
	}
	return tokens, warnings, err
}

// tokenEntry is the form of an entry in the file.
type tokenEntry struct {
	Name   string   `yaml:"name"`
	Token  string   `yaml:"token"`
	Scopes []string `yaml:"scopes"`
}

// ParseTokensOf is LoadTokensOf for the content of a file.
func ParseTokensOf(path string, data []byte, scopes []string) (Tokens, error) {
	var entries []tokenEntry
	if err := strict.Decode(path, data, &entries); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: no tokens: want at least one, such as - {name: crawler, token: ..., scopes: [filter]}", path)
	}
	var f fault.List
	public := published()
	tokens := make(Tokens, len(entries))
	for i, e := range entries {
		key := fmt.Sprintf("%s: token %d", path, i+1)
		if e.Name == "" {
			f.Add(key, "no name")
		} else {
			key = fmt.Sprintf("%s: token %d (%s)", path, i+1, e.Name)
		}
		digest, err := digestOf(e.Token)
		if err != nil {
			f.Add(key, "%w", err)
		} else if slices.Contains(public, digest) {
			f.Add(key, "secret is the public one of tokens.example.yaml: want one of your own, as the command `token new` makes it")
		}
		for j, other := range tokens[:i] {
			if e.Name != "" && other.Name == e.Name {
				f.Add(key, "name is that of token %d: want each once", j+1)
			}
			if err == nil && other.digest == digest {
				f.Add(key, "secret is that of token %d: want each once", j+1)
			}
		}
		if len(e.Scopes) == 0 {
			f.Add(key, "no scopes: want some of %s", strings.Join(scopes, ", "))
		}
		for _, scope := range e.Scopes {
			f.OneOf(key+": scope", scope, scopes...)
		}
		tokens[i] = Token{Name: e.Name, Scopes: slices.Clone(e.Scopes), digest: digest}
	}
	if err := errors.Join(f...); err != nil {
		return nil, err
	}
	return tokens, nil
}

// published returns the digests in the example, which everybody can read.
func published() (digests [][sha256.Size]byte) {
	var entries []tokenEntry
	if err := strict.Decode("tokens.example.yaml", ExampleTokens, &entries); err != nil {
		panic(err) // it is part of the program
	}
	for _, e := range entries {
		digest, err := digestOf(e.Token)
		if err != nil {
			panic(err)
		}
		digests = append(digests, digest)
	}
	return digests
}

// digestOf reads a token as the file gives it: the secret, or sha256: and the 64
// hexadecimal digits of its SHA-256.
func digestOf(token string) (digest [sha256.Size]byte, err error) {
	if digits, ok := strings.CutPrefix(token, "sha256:"); ok {
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != len(digest) {
			return digest, errors.New("malformed digest: want sha256: and 64 hexadecimal digits")
		}
		return [sha256.Size]byte(raw), nil
	}
	if len(token) < minToken {
		return digest, fmt.Errorf("secret of %d characters: want %d or more", len(token), minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return digest, errors.New("secret cannot stand in an HTTP header: want visible ASCII characters without blanks")
	}
	return sha256.Sum256([]byte(token)), nil
}

// Match returns the token with that secret. It takes the same time whichever token that
// is, and whether or not there is one.
func (t Tokens) Match(secret string) (Token, bool) {
	digest := sha256.Sum256([]byte(secret))
	at := -1
	for i := range t {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], t[i].digest[:]), i, at)
	}
	if at < 0 {
		return Token{}, false
	}
	return t[at], true
}
