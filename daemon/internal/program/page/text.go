package page

import (
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/text/language"
)

// Languages, as indexes.
const (
	english = iota
	chinese
	languages
)

// Texts are texts by their keys, in English and in Chinese. They may have verbs of package fmt, in either language the same ones.
type Texts map[string][languages]string

var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

func languageOf(r *http.Request) int {
	_, index := language.MatchStrings(matcher, r.Header.Get("Accept-Language"))
	return index
}

func (s *Site) text(language int, key string, args ...any) string {
	text, ok := s.Texts[key]
	switch {
	case !ok:
		return key
	case len(args) == 0:
		return text[language]
	}
	return fmt.Sprintf(text[language], args...)
}

var (
	named = regexp.MustCompile(`\bt "([^"]+)"`)
	verb  = regexp.MustCompile(`%[a-z]`)
)

// parse reads all templates, for each language.
func (s *Site) parse() {
	all := maps.Clone(texts)
	maps.Copy(all, s.Texts)
	s.Texts = all
	for key, text := range all {
		if text[english] == "" || text[chinese] == "" || strings.Join(verb.FindAllString(text[english], -1), "") != strings.Join(verb.FindAllString(text[chinese], -1), "") {
			panic("text " + key + ": is not the same in all languages")
		}
	}
	own, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err)
	}
	for lang := range s.pages {
		s.pages[lang] = map[string]*template.Template{}
		base := template.New("").Funcs(s.functions(lang))
		for _, name := range []string{"layout.html", "draw.html"} {
			template.Must(base.Parse(s.source(own, name)))
		}
		for _, from := range []fs.FS{own, s.Templates} {
			names, err := fs.Glob(from, "*.html")
			if err != nil {
				panic(err)
			}
			for _, name := range names {
				s.pages[lang][strings.TrimSuffix(name, ".html")] = template.Must(template.Must(base.Clone()).Parse(s.source(from, name)))
			}
		}
	}
}

// source is the text of a template.
func (s *Site) source(from fs.FS, name string) string {
	text, err := fs.ReadFile(from, name)
	if err != nil {
		panic(err)
	}
	for _, match := range named.FindAllSubmatch(text, -1) {
		if _, known := s.Texts[string(match[1])]; !known {
			panic(name + ": there is no text " + string(match[1]))
		}
	}
	return string(text)
}
