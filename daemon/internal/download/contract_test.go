package download

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCutReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, reason string
		want         int // bytes that are kept
	}{
		{"empty", "", 0},
		{"one byte below", strings.Repeat("a", MaxReason-1), MaxReason - 1},
		{"as long as may be", strings.Repeat("a", MaxReason), MaxReason},
		{"one byte too long", strings.Repeat("a", MaxReason+1), MaxReason},
		{"two bytes over the bound", strings.Repeat("a", MaxReason-1) + "é", MaxReason - 1},
		{"four bytes over the bound", strings.Repeat("a", MaxReason-3) + "😀", MaxReason - 3},
		{"four bytes up to the bound", strings.Repeat("a", MaxReason-4) + "😀b", MaxReason},
	} {
		got := CutReason(test.reason)
		if len(got) != test.want || !strings.HasPrefix(test.reason, got) || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, want the first %d", test.name, len(got), test.want)
		}
	}
	if got := CutReason("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("invalid UTF-8: %q", got)
	}
}

func TestSettingEqual(t *testing.T) {
	t.Parallel()
	full := Setting{Dispatch: 1, Engine: EngineHTTP, Proxies: []string{"p"}, Headers: map[string]string{"a": "b"}, ReportMails: []string{"m"}}
	if !full.Equal(full) || !(Setting{}).Equal(Setting{Proxies: []string{}, Headers: map[string]string{}}) {
		t.Error("equal settings differ")
	}
	for name, change := range map[string]func(*Setting){
		"dispatch": func(s *Setting) { s.Dispatch++ },
		"proxies":  func(s *Setting) { s.Proxies = []string{"p", "q"} },
		"headers":  func(s *Setting) { s.Headers = map[string]string{"a": "c"} },
		"mails":    func(s *Setting) { s.ReportMails = nil },
		"cookies":  func(s *Setting) { s.KeepCookies = true },
		"robots":   func(s *Setting) { s.Robots = true },
	} {
		other := full
		change(&other)
		if full.Equal(other) || other.Equal(full) {
			t.Errorf("%s: settings that differ are equal", name)
		}
	}
}
