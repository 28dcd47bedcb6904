package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var (
	codeSpan = regexp.MustCompile("`[^`]+`")
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	comment  = regexp.MustCompile(`(?m)(^|\s+)(#|//) .*$`)
	figure   = regexp.MustCompile(`([0-9]+(?:[,.][0-9]+)*)( million| thousand|\s?万|\s?亿)?`)
	errorRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([0-9]{3}) \\| (.+) \\|$")
)

// part is what two languages have in common in the part of a page under one heading.
type part struct {
	level                            int
	blocks, commands, links, figures []string
}

// partsOf takes a page apart. Comments of blocks are in the language of the page.
func partsOf(text string) []part {
	parts, fenced, block := []part{{}}, false, ""
	for line := range strings.Lines(text) {
		at := &parts[len(parts)-1]
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; !fenced {
				at.blocks = append(at.blocks, comment.ReplaceAllString(block, ""))
			}
			block = line
		case fenced:
			block += line
		case strings.HasPrefix(line, "#"):
			parts = append(parts, part{level: len(line) - len(strings.TrimLeft(line, "#"))})
		default:
			at.commands = append(at.commands, codeSpan.FindAllString(line, -1)...)
			for _, m := range linked.FindAllStringSubmatch(line, -1) {
				at.links = append(at.links, strings.ReplaceAll(m[1], ".zh.", "."))
			}
			for _, m := range figure.FindAllStringSubmatch(linked.ReplaceAllString(codeSpan.ReplaceAllString(line, ""), "]"), -1) {
				times := map[string]float64{"": 1, "thousand": 1e3, "million": 1e6, "万": 1e4, "亿": 1e8}[strings.TrimSpace(m[2])]
				if n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64); err == nil && times != 1 {
					at.figures = append(at.figures, fmt.Sprint(n*times))
				} else {
					at.figures = append(at.figures, m[1])
				}
			}
		}
	}
	for i := range parts {
		slices.Sort(parts[i].commands) // sentences of another language have another order
		slices.Sort(parts[i].links)
		slices.Sort(parts[i].figures)
	}
	return parts
}

// TestLanguagesSayTheSame: a page in Chinese has the parts of the page in English, and each part its blocks, commands, links and figures.
func TestLanguagesSayTheSame(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.zh.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../README.zh.md") {
		theirs, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(page, ".zh.md", ".md")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, got := partsOf(string(text)), partsOf(string(theirs))
		for i := range min(len(want), len(got)) {
			at := fmt.Sprintf("%s, heading %d", page, i)
			if got[i].level != want[i].level {
				t.Errorf("%s: of level %d, in English %d", at, got[i].level, want[i].level)
			}
			for what, pair := range map[string][2][]string{
				"blocks": {got[i].blocks, want[i].blocks}, "commands": {got[i].commands, want[i].commands},
				"links": {got[i].links, want[i].links}, "figures": {got[i].figures, want[i].figures},
			} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s: %s:\n%q\nin English:\n%q", at, what, pair[0], pair[1])
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d headings, the page in English %d", page, len(got)-1, len(want)-1)
		}
	}
}

// TestErrorCodesAreExplained: each error code that the two programs may answer has its row in both languages, and no other has one.
func TestErrorCodesAreExplained(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, api := range []string{"internal/front/http/openapi.yaml", "internal/download/master/openapi.yaml"} {
		doc, err := openapi3.NewLoader().LoadFromFile(api)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range doc.Components.Schemas["Problem"].Value.Properties["error_code"].Value.Enum {
			codes = append(codes, code.(string))
		}
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	if len(codes) < 60 {
		t.Fatalf("%d codes", len(codes))
	}
	for _, page := range []string{"../docs/errors.md", "../docs/errors.zh.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var rows []string
		for _, m := range errorRow.FindAllStringSubmatch(string(text), -1) {
			rows = append(rows, m[1])
		}
		slices.Sort(rows)
		if !slices.Equal(rows, codes) {
			t.Errorf("%s explains\n%q\nthe programs answer\n%q", page, rows, codes)
		}
	}
}
