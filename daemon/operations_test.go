package daemon_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The messages that the manual quotes under "When a target fails" are what people search for
// with the message in front of them, so the sources must contain exactly these words.
func TestQuotedMessagesAreInTheSources(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "\n## When a target fails\n")
	if !ok {
		t.Fatal("docs/operations.md has no part \"When a target fails\"")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(part, -1)
	if len(quoted) < 10 {
		t.Fatalf("%d messages are quoted, want 10 or more: has the table another form?", len(quoted))
	}
	sources := sourceText(t, "../provision", "../magefiles", "../daemon", "../client", "../configs")
	for _, q := range quoted {
		if !strings.Contains(sources, q[1]) {
			t.Errorf("docs/operations.md quotes %q, which no Go file has", q[1])
		}
	}
}

// sourceText is the text of all Go files in the folders, except tests.
func sourceText(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(name string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			all.Write(text)
			all.WriteByte('\n')
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
