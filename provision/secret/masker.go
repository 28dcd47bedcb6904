// Package secret keeps secrets out of what people and logs see: by the keys of settings
// files, and by the secrets themselves as a second line of defence. It also has the script
// with which a host draws a secret of its own. It stores and encrypts nothing here.
package secret

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// shortest is the minimum length of a text that a Masker replaces: shorter ones occur
// in ordinary words.
const shortest = 4

// Masker knows the secrets of a run and replaces them in texts. The zero value knows
// none. nil knows none either, and cannot learn any. It is safe for concurrent use.
type Masker struct {
	mu    sync.RWMutex
	known []string // longest first, so that a secret within another leaves no rest
}

// Add registers secrets, with their base64 and URL-escaped forms. Each line of a multi-line
// secret is registered, too. Texts under four bytes are left out.
func (m *Masker) Add(secrets ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range secrets {
		forms := []string{s, strings.TrimSpace(s), url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s))}
		if strings.Contains(s, "\n") {
			forms = append(forms, strings.Split(s, "\n")...)
		}
		for _, form := range forms {
			if form = strings.TrimRight(form, "\r"); len(strings.TrimSpace(form)) >= shortest && len(strings.TrimSpace(s)) >= shortest && !slices.Contains(m.known, form) {
				m.known = append(m.known, form)
			}
		}
	}
	slices.SortStableFunc(m.known, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// Mask replaces every known secret in text.
func (m *Masker) Mask(text string) string {
	if m == nil {
		return text
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, s := range m.known {
		text = strings.ReplaceAll(text, s, hidden)
	}
	return text
}
