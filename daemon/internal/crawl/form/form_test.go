package form

import (
	"bytes"
	"io"
	"mime"
	stdmultipart "mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

func parsed(t testing.TB, page string) *Page {
	t.Helper()
	p, err := Parse([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func address(t testing.TB, text string) *uri.URI {
	t.Helper()
	u, err := uri.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// sent returns what a browser on a page in UTF-8 sends for its first form.
func sent(t testing.TB, page string, s Sending) *Submission {
	t.Helper()
	p := parsed(t, page)
	if len(p.Forms) == 0 {
		t.Fatalf("no form in %s", page)
	}
	if s.At == nil {
		s.At = address(t, "https://a.example/dir/page?x=1")
	}
	if s.Base = p.Base; s.Charset == "" {
		s.Charset = "utf-8"
	}
	out, err := p.Forms[0].Submit(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatIsSent tests the controls of the standard one by one.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ form, want string }{
		"text":                       {`<input name=a value="1 2&3"><input name=b><input value=unnamed><input name="" value=x>`, "a=1+2%263&b="},
		"unknown type":               {`<input type=color-of-hat name=a value=x>`, "a=x"},
		"hidden":                     {`<input type=HIDDEN name=a value="  x ">`, "a=++x+"},
		"boxes":                      {`<input type=checkbox name=a checked><input type=checkbox name=b value=1><input type=checkbox name=a value=2 checked>`, "a=on&a=2"},
		"radio":                      {`<input type=radio name=a value=1><input type=radio name=a value=2 checked>`, "a=2"},
		"disabled":                   {`<input name=a value=1 disabled><select name=b disabled><option>x</select><textarea name=c disabled></textarea><input name=d>`, "d="},
		"disabled fieldset":          {`<fieldset disabled><legend><input name=a></legend><legend><input name=b></legend><input name=c><fieldset><input name=d></fieldset></fieldset><input name=e>`, "a=&e="},
		"select":                     {`<select name=a><option>one  two<option value=3>three</select>`, "a=one+two"},
		"select with a choice":       {`<select name=a><option>1<option selected>2<option selected>3</select>`, "a=3"},
		"select, first disabled":     {`<select name=a><option disabled>1<option>2</select>`, "a=2"},
		"select, choice disabled":    {`<select name=a><option>1<option selected disabled>2</select>`, ""},
		"select, group disabled":     {`<select name=a><optgroup disabled><option>1</optgroup><option>2</select>`, "a=2"},
		"select of many":             {`<select name=a multiple><option selected>1<option>2<option selected value="">3</select>`, "a=1&a="},
		"select of many lines":       {`<select name=a size=3><option>1<option>2</select>`, ""},
		"select that is not ended":   {`<select name=a><option>1<input name=b>`, "a=1&b="},
		"textarea":                   {"<textarea name=a>\n\none\ntwo\r\nthree\rfour</textarea>", "a=%0D%0Aone%0D%0Atwo%0D%0Athree%0D%0Afour"},
		"textarea with tags":         {"<textarea name=a><b>&lt;&amp;</textarea>", "a=%3Cb%3E%3C%26"},
		"buttons":                    {`<input type=reset name=r value=1><input type=button name=b value=1><button type=button name=c>x</button><input type=image name=i><input type=submit name=s value=go><input type=submit name=t value=2>`, "s=go"},
		"button":                     {`<button name=a value=1>text</button>`, "a=1"},
		"button disabled":            {`<button name=a value=1 disabled>text</button><button name=b>text</button>`, "b="},
		"no file":                    {`<input type=file name=f>`, "f="},
		"charset":                    {`<input type=hidden name=_charset_><input type=hidden name=_charset_ value=x>`, "_charset_=UTF-8&_charset_=x"},
		"form attribute":             {`<input name=a></form><form id=g><input name=b></form><input name=c form=f><input name=d form=none><input name=e>`, "a=&c="},
		"form in a form":             {`<input name=a><form><input name=b></form><input name=c>`, "a=&b="},
		"table":                      {`<table><tr><form><td><input name=a></td></tr></table><input name=b></form><input name=c>`, "a=&b="},
		"template, datalist, script": {`<template><input name=a></template><datalist><select name=b></select></datalist><script>"<input name=c>"</script><!-- <input name=d> --><input name=e>`, "e="},
		"entities":                   {`<input name="a&amp;b" value="&#20013;&quot;">`, "a%26b=%E4%B8%AD%22"},
		"keygen, object, output":     {`<object name=a></object><output name=b>x</output><input name=c>`, "c="},
	} {
		if got := sent(t, "<p><form id=f method=post>"+c.form, Sending{}); string(got.Body) != c.want {
			t.Errorf("%s: %s, want %s", name, got.Body, c.want)
		}
	}
}

func TestWhereItIsSent(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		`<form>`: "GET https://a.example/dir/page?",
		`<base href=/other/><form action="x?old=1#f"><input name=a value=1>`:                          "GET https://a.example/other/x?a=1",
		`<base href=/other/><form method=post><input name=a value=1>`:                                 "POST https://a.example/dir/page?x=1 application/x-www-form-urlencoded a=1",
		`<form method=POST action="x?old=1#f" enctype="Text/Plain"><input name=a value="1 2">`:        "POST https://a.example/dir/x?old=1 text/plain a=1 2\r\n",
		`<form method=put enctype=x action=" y "><input name=a>`:                                      "GET https://a.example/dir/y?a=",
		`<form><button formaction=z formmethod=post formenctype=text/plain name=b value=1>x</button>`: "POST https://a.example/dir/z text/plain b=1\r\n",
	} {
		s := sent(t, page, Sending{})
		if got := strings.TrimRight(strings.Join([]string{s.Method, s.URI, s.ContentType, string(s.Body)}, " "), " "); got != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
	for page, want := range map[string]string{
		`<form action="http://a.example/">`: "the page is encrypted, what it sends to http://a.example would not be",
		`<form action="javascript:x()">`:    `the scheme is "javascript"`,
		`<form method=dialog>`:              "closed by a script",
	} {
		if _, err := parsed(t, page).Forms[0].Submit(Sending{At: address(t, "https://a.example/")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", page, err, want)
		}
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	const text = "中é€🎈 a"
	for _, c := range []struct{ accept, page, over, want string }{
		{"", "utf-8", "", "%E4%B8%AD%C3%A9%E2%82%AC%F0%9F%8E%88+a"},
		{"", "gbk", "", "%D6%D0%A8%A6%80%26%23127880%3B+a"},
		{"", "gb18030", "", "%D6%D0%A8%A6%A2%E3%949%BD4+a"},
		{"", "big5", "", "%A4%A4%26%23233%3B%A3%E1%26%23127880%3B+a"},
		{"", "shift_jis", "", "%92%86%26%23233%3B%26%238364%3B%26%23127880%3B+a"},
		{"", "euc-kr", "", "%F1%E9%26%23233%3B%A2%E6%26%23127880%3B+a"},
		{"", "iso-2022-jp", "", "%1B%24BCf%1B%28B%26%23233%3B%26%238364%3B%26%23127880%3B+a"},
		{"", "windows-1252", "", "%26%2320013%3B%E9%80%26%23127880%3B+a"},
		{"", "utf-16le", "", "%E4%B8%AD%C3%A9%E2%82%AC%F0%9F%8E%88+a"},
		{"unheard-of, GB2312 utf-8", "utf-8", "", "%D6%D0%A8%A6%80%26%23127880%3B+a"},
		{"utf-8", "utf-8", "gbk", "%D6%D0%A8%A6%80%26%23127880%3B+a"},
	} {
		got := sent(t, `<form method=post accept-charset="`+c.accept+`"><input name=t value="`+text+`">`, Sending{Charset: c.page, Encoding: c.over})
		if want := "t=" + c.want; string(got.Body) != want {
			t.Errorf("%+v: %s, want %s", c, got.Body, want)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	const page = `<form method=post><input name=t value=old><input name=two value=1><input name=two value=2><textarea name=area>old</textarea><input type=checkbox name=box checked>
<input type=checkbox name=many value=1 checked><input type=checkbox name=many value=2><input type=radio name=one value=1 checked><input type=radio name=one value=2>
<select name=list><option value=1>first<option value=2>second<option disabled>third</select><select name=lists multiple><option>a<option>b<option>c</select><input type=file name=f><input name=off disabled></form>`
	const rest = "&two=1&two=2&area=old&box=on&many=1&one=1&list=1&f="
	for _, c := range []struct {
		name string
		v    Value
		want string // the body, or the error after "!"
	}{
		{"t", Value{Texts: []string{"new\nline"}}, "t=newline" + rest},
		{"two", Value{Texts: []string{"x"}}, "t=old&two=x&two=2&area=old&box=on&many=1&one=1&list=1&f="},
		{"two", Value{Texts: []string{"x", "y", "z"}}, "!3 texts for 2 fields"},
		{"area", Value{Texts: []string{"a\nb"}}, "t=old&two=1&two=2&area=a%0D%0Ab&box=on&many=1&one=1&list=1&f="},
		{"box", Value{Checked: &no}, "t=old&two=1&two=2&area=old&many=1&one=1&list=1&f="},
		{"many", Value{Texts: []string{"2"}}, "t=old&two=1&two=2&area=old&box=on&many=2&one=1&list=1&f="},
		{"many", Value{Checked: &yes}, `!want values of ["1" "2"]`},
		{"many", Value{Texts: []string{"3"}}, `!there is no such value: want one of ["1" "2"]`},
		{"one", Value{Texts: []string{"2"}}, "t=old&two=1&two=2&area=old&box=on&many=1&one=2&list=1&f="},
		{"one", Value{Texts: []string{"1", "2"}}, `!want one of ["1" "2"]`},
		{"list", Value{Texts: []string{"second"}}, "t=old&two=1&two=2&area=old&box=on&many=1&one=1&list=2&f="},
		{"list", Value{Texts: []string{"third"}}, `!there is no such option: want one of "1", "2", "third"`},
		{"list", Value{Texts: []string{"1", "2"}}, `!want one of "1"`},
		{"lists", Value{Texts: []string{"a", "c"}}, "t=old&two=1&two=2&area=old&box=on&many=1&one=1&list=1&lists=a&lists=c&f="},
		{"f", Value{Texts: []string{"x"}}, "!the field takes files"},
		{"t", Value{Checked: &yes}, "!the field takes a text"},
		{"off", Value{Texts: []string{"x"}}, "!the field is disabled"},
		{"none", Value{Texts: []string{"x"}}, "!the form has no field of that name; it has t, two, area, box"},
	} {
		form := parsed(t, page).Forms[0]
		err := form.Set(c.name, c.v)
		if fault, isFault := strings.CutPrefix(c.want, "!"); isFault {
			if err == nil || !strings.HasPrefix(err.Error(), fault) {
				t.Errorf("%s: %v, want %s", c.name, err, fault)
			}
			continue
		}
		out, also := form.Submit(Sending{At: address(t, "http://a.example/"), Charset: "utf-8"})
		if err != nil || also != nil || string(out.Body) != c.want {
			t.Errorf("%s: %s, %v, %v; want %s", c.name, out.Body, err, also, c.want)
		}
	}
}

// FuzzForm: whatever a page contains, the standard library can read back what is sent.
func FuzzForm(f *testing.F) {
	f.Add(`<form method=post enctype=multipart/form-data><input name="a&quot;
b" value="x"><select name=s><option>1<textarea name=t>`, "gbk")
	f.Add(`<form id=a></form><input form=a name=x><fieldset disabled><legend>`, "iso-2022-jp")
	f.Add(`<template><form></template></select></optgroup></legend></fieldset>`, "")
	f.Fuzz(func(t *testing.T, page, label string) {
		p, err := Parse([]byte(strings.ToValidUTF8(page, "\ufffd")))
		if err != nil {
			return
		}
		for _, form := range p.Forms {
			pressed, _ := form.button("")
			c := codecOf("", label)
			all := form.entries(pressed, c.name)
			body := string(c.urlencode(all))
			got, err := url.ParseQuery(body)
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			n := 0
			for _, e := range all {
				if e.upload == nil && !slices.Contains(got[string(c.bytes(e.name))], string(c.bytes(e.value))) {
					t.Fatalf("%q lacks %q", body, e.name)
				}
				n++
			}
			if strings.Count(body, "=") != n {
				t.Fatalf("%q: want %d", body, n)
			}
			if slices.ContainsFunc(all, func(e entry) bool {
				return strings.ContainsFunc(string(c.bytes(e.name)), func(r rune) bool { return r < ' ' && r != '\r' && r != '\n' || r == 0x7f })
			}) {
				continue // browsers send it unchanged, and the standard library cannot read it
			}
			kind, raw := c.multipart(all)
			_, params, err := mime.ParseMediaType(kind)
			if err != nil {
				t.Fatal(err)
			}
			parts := stdmultipart.NewReader(bytes.NewReader(raw), params["boundary"])
			for i := 0; ; i++ {
				part, err := parts.NextRawPart()
				if err == io.EOF {
					if i != n {
						t.Fatalf("%d parts, want %d", i, n)
					}
					break
				}
				if err != nil {
					t.Fatalf("%q: %v", raw, err)
				}
				if text, err := io.ReadAll(part); err != nil || all[i].upload == nil && string(text) != string(c.bytes(all[i].value)) {
					t.Fatalf("%q, %v; want %q", text, err, all[i].value)
				}
			}
		}
	})
}
