package daemon_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedPage    = regexp.MustCompile(`docs/(?:measured/)?[a-z][a-z0-9.]*\.md(#[a-z0-9-]+)?`)
	heading      = regexp.MustCompile(`^(#+) (.+)$`)
	numbered     = regexp.MustCompile(`-[0-9]+$`)
)

// anchorsOf returns the names by which GitHub links the headings of a page.
func anchorsOf(text string) map[string]bool {
	anchors, fenced := map[string]bool{}, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			fenced = !fenced
		}
		if found := heading.FindStringSubmatch(line); found != nil && !fenced {
			anchors[strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
					return unicode.ToLower(r)
				}
				return -1
			}, found[2])] = true
		}
	}
	return anchors
}

// TestLinksOfTheDocs: every link between pages leads to a page, and to a part that it has; so do the names of pages in programs,
// settings and help texts.
func TestLinksOfTheDocs(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	read := func(name string) string {
		text, known := texts[name]
		if !known {
			raw, err := os.ReadFile(name)
			if err != nil {
				return ""
			}
			text = string(raw)
			texts[name] = text
		}
		return text
	}
	seen := 0
	check := func(from, file, anchor string) {
		seen++
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: a link to %s, which is not there", from, file)
		} else if anchor != "" && !anchorsOf(read(file))[numbered.ReplaceAllString(anchor, "")] && !anchorsOf(read(file))[anchor] {
			t.Errorf("%s: a link to %s#%s, which has no such heading", from, file, anchor)
		}
	}
	others := []string{".go", ".py", ".yaml", ".yml", ".html", ".sh"}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && name != ".." || entry.Name() == "dist" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir():
		case filepath.Ext(name) == ".md":
			for _, found := range markdownLink.FindAllStringSubmatch(read(name), -1) {
				target, anchor, _ := strings.Cut(found[1], "#")
				if strings.Contains(target, ":") || strings.Contains(anchor, "/") {
					continue // of the web
				}
				file := name
				if target != "" {
					file = filepath.Join(filepath.Dir(name), filepath.FromSlash(target))
				}
				check(name, file, anchor)
			}
		case slices.Contains(others, filepath.Ext(name)):
			for _, found := range namedPage.FindAllString(read(name), -1) {
				page, anchor, _ := strings.Cut(found, "#")
				check(name, filepath.Join("..", filepath.FromSlash(page)), anchor)
			}
		}
		return nil
	})
	if err != nil || seen < 300 {
		t.Errorf("%d links, %v", seen, err)
	}
}
