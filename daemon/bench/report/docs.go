package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Folders of docs.
const (
	Measured = "measured" // the files of the parts that docs show
	plots    = "plots"
)

var (
	marked   = regexp.MustCompile(`(?s)<!-- bench:([^ ]*) -->\n(.*?)<!-- /bench -->`)
	anyMark  = regexp.MustCompile(`<!-- (bench:|/bench)`)
	linkText = regexp.MustCompile(`\]\(plots/([^)#]*)\)`)
)

// Render returns the files of a docs folder as the results in its subfolder Measured require them:
// each *.md file, there and in Measured, with its tables between
//
//	<!-- bench:ID -->
//	<!-- /bench -->
//
// and with machine and date of the part under each table, and a picture for each chart. The rest of
// the docs is unchanged. A marker or a picture that belongs to no part is an error, and so is a table
// or chart that no page shows. The arguments tables and charts list those of all parts, including
// parts that are not measured yet.
func Render(docs string, tables, charts []string) (map[string][]byte, error) {
	parts, err := Load(filepath.Join(docs, Measured))
	if err != nil {
		return nil, err
	}
	bodies, files := map[string]string{}, map[string][]byte{}
	for _, p := range parts {
		for _, t := range p.Tables {
			bodies[t.ID] = p.body(t)
		}
		for _, c := range p.Charts {
			if files[filepath.Join(plots, c.ID+".svg")], err = c.Chart.SVG(); err != nil {
				return nil, err
			}
		}
	}
	var pages []string
	for _, folder := range []string{"", Measured} {
		found, err := filepath.Glob(filepath.Join(docs, folder, "*.md"))
		if err != nil {
			return nil, err
		}
		pages = append(pages, found...)
	}
	var shown, linked []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		found := marked.FindAllSubmatch(text, -1)
		if len(anyMark.FindAll(text, -1)) != 2*len(found) {
			return nil, fmt.Errorf("%s: want each <!-- bench:ID --> in a line of its own, and <!-- /bench --> behind its table", page)
		}
		for _, m := range found {
			shown = append(shown, string(m[1]))
		}
		for _, m := range linkText.FindAllSubmatch(text, -1) {
			linked = append(linked, strings.TrimSuffix(string(m[1]), ".svg"))
		}
		if len(found) > 0 {
			files[strings.TrimPrefix(page, docs+string(filepath.Separator))] = marked.ReplaceAllFunc(text, func(all []byte) []byte {
				id := string(marked.FindSubmatch(all)[1])
				if body, ok := bodies[id]; ok {
					return fmt.Appendf(nil, "<!-- bench:%s -->\n%s<!-- /bench -->", id, body)
				}
				return all // not measured yet
			})
		}
	}
	return files, errors.Join(same("table", "a marker", tables, shown), same("chart", "a link to plots/", charts, linked))
}

// body returns a table with its title and how it was measured.
func (p *Part) body(t shown) string {
	var b bytes.Buffer
	b.WriteByte('\n')
	plain := make(Table, len(t.Rows))
	for i, row := range t.Rows {
		for _, cell := range row {
			plain[i] = append(plain[i], strings.ReplaceAll(cell, "|", `\|`))
		}
	}
	plain.write(&b, false)
	fmt.Fprintf(&b, "\n*%s. Measured on %s by `go tool mage bench -args=-only=%s`%s: %s%s.*\n\n", t.Title, p.Date, p.Name, p.medians(), p.Machine, p.busy())
	return b.String()
}

func (p *Part) medians() string {
	if p.Runs == 0 {
		return ""
	}
	return fmt.Sprintf(", medians of %d runs", p.Runs)
}

// busy says how busy other programs kept the machine, if that is known.
func (p *Part) busy() string {
	if p.Others == nil {
		return ""
	}
	return fmt.Sprintf("; other programs had %.0f %% of the cores' time", 100**p.Others)
}

// same returns an error for what is missing from the docs and for what they show although they
// should not.
func same(what, how string, want, have []string) error {
	var err error
	for _, id := range want {
		switch n := len(slices.DeleteFunc(slices.Clone(have), func(h string) bool { return h != id })); {
		case n == 0:
			err = errors.Join(err, fmt.Errorf("docs: the %s %s of the benchmark is on no page\nhint: put in %s for it", what, id, how))
		case n > 1 && what == "table":
			err = errors.Join(err, fmt.Errorf("docs: the %s %s is there %d times", what, id, n))
		}
	}
	for _, id := range have {
		if !slices.Contains(want, id) {
			err = errors.Join(err, fmt.Errorf("docs: there is %s for %q, which is no %s of the benchmark", how, id, what))
		}
	}
	return err
}

// Write renders docs and writes the files that differ.
func Write(docs string, tables, charts []string) error {
	files, err := Render(docs, tables, charts)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(docs, plots), 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	for name, text := range files {
		path := filepath.Join(docs, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			continue
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // for everybody
			return err
		}
	}
	return nil
}
