package systemd

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]struct{ account, unit bool }{
		"urifilter":             {true, true},
		"_crawl-2":              {true, false},
		strings.Repeat("a", 31): {true, true},
		strings.Repeat("a", 32): {false, true},
		"Mongo":                 {false, true},
		"mongod@rs0.service":    {false, true},
		"":                      {},
		"-x":                    {},
		"a b":                   {},
		"a;b":                   {},
		"a\n":                   {},
		"a/b":                   {},
	} {
		if got := AccountName(name); got != want.account {
			t.Errorf("account %q: %t", name, got)
		}
		if got := UnitName(name); got != want.unit {
			t.Errorf("unit %q: %t", name, got)
		}
	}
}
