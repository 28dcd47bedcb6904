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

// texts are those of this package.
var texts = Texts{
	"lang":           {"en", "zh-CN"},
	"skip":           {"Skip to the content", "跳到正文"},
	"login":          {"Log in", "登录"},
	"logout":         {"Log out", "退出登录"},
	"login.why":      {"This page shows what a token with the scope read may see. With the scope admin, it can also change things.", "此页面显示具有 read 权限的令牌可以查看的内容；具有 admin 权限的令牌还可以执行修改操作。"},
	"login.token":    {"Token", "令牌"},
	"login.insecure": {"This connection is not encrypted: whoever can read it learns the token.", "此连接未加密：能够监听网络的人都可以得到令牌。"},
	"login.keep":     {"The browser keeps a session of 12 hours, not the token.", "浏览器只保存 12 小时的会话，不保存令牌。"},
	"as":             {"Logged in as %s", "已登录：%s"},
	"updated":        {"As of %s", "截至 %s"},
	"reload":         {"Load again", "重新加载"},
	"away":           {"No answer: the figures below are old.", "没有响应：下面的数据已过时。"},
	"refused":        {"The figures below are old, as the page is refused:", "页面请求被拒绝，下面的数据已过时："},
	"forbidden":      {"; log in with one that has it, at /ui/login", "；请在 /ui/login 用具有该权限的令牌登录"},
	"ended":          {"The session has ended: the figures below are old.", "会话已结束：下面的数据已过时。"},
	"copy":           {"Copy", "复制"},
	"copied":         {"Copied", "已复制"},
	"cancel":         {"Cancel", "取消"},
	"ago":            {"%s ago", "%s前"},
	"milliseconds":   {"%s ms", "%s 毫秒"},
	"seconds":        {"%d s", "%d 秒"},
	"minutes":        {"%d min", "%d 分钟"},
	"hours":          {"%d h", "%d 小时"},
	"days":           {"%d days", "%d 天"},
	"state":          {"State", "状态"},
	"ready":          {"Ready", "就绪"},
	"notready":       {"Not ready", "未就绪"},
	"notes":          {"Needs attention", "需要关注"},
	"notes.none":     {"Nothing needs attention.", "没有需要关注的问题。"},
	"notes.more":     {"and %d more", "还有 %d 条"},
	"find":           {"Search", "搜索"},
	"find.do":        {"Find", "查找"},
	"find.all":       {"All", "全部"},
	"pages":          {"Pages", "页"},
	"previous":       {"Previous", "上一页"},
	"next":           {"Next", "下一页"},
	"page.of":        {"%d–%d of %d", "第 %d–%d 项，共 %d 项"},
	"error":          {"That did not work", "操作未成功"},
	"home":           {"To the overview", "返回总览"},
	"final":          {"This cannot be undone.", "此操作无法撤销。"},
}
