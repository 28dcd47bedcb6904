package configs

import "sync/atomic"

// TokenFile is a tokens file that can be reloaded while a program serves. It is safe for
// concurrent use. Nil means that there is no file: calls need no token.
type TokenFile struct {
	path    string
	scopes  []string
	current atomic.Pointer[Tokens]
}

// OpenTokens reads the file at path, "" for none, as [LoadTokensOf] does.
func OpenTokens(path string, scopes []string) (f *TokenFile, warnings []string, err error) {
	if path == "" {
		return nil, nil, nil
	}
	f = &TokenFile{path: path, scopes: scopes}
	warnings, err = f.Reload()
	return f, warnings, err
}

// Reload reads the file. If it cannot be used, the previous tokens stay in use.
func (f *TokenFile) Reload() (warnings []string, err error) {
	tokens, warnings, err := LoadTokensOf(f.path, f.scopes)
	if err == nil {
		f.current.Store(&tokens)
	}
	return warnings, err
}

// Authenticate returns a function that finds the token with a secret, in constant time; nil if
// there is no file.
func (f *TokenFile) Authenticate() func(secret string) (name string, scopes []string, ok bool) {
	if f == nil {
		return nil
	}
	return func(secret string) (string, []string, bool) {
		t, ok := f.current.Load().Match(secret)
		return t.Name, t.Scopes, ok
	}
}
