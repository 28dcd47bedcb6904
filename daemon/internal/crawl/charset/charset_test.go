package charset

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"
)

func encoded(t *testing.T, name, text string) string {
	t.Helper()
	e, err := htmlindex.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOrder: which declaration of a body counts.
func TestOrder(t *testing.T) {
	t.Parallel()
	const text = "<p>中文文本的文字 ...</p>"
	in := func(name string) string { return encoded(t, name, text) }
	const gbkMeta, xml = `<meta charset=gb2312>`, `<?xml version='1.0' encoding = "Big5" ?>`
	for _, c := range []struct {
		name, body, contentType string
		declared                string
		used                    string
		mismatch                bool
	}{
		{"mark", "\xEF\xBB\xBF" + text, "text/html; charset=gbk", "utf-8", "utf-8", false},
		{"mark of UTF-16", "\xFF\xFE" + in("utf-16le"), "text/html; charset=gbk", "utf-16le", "utf-16le", false},
		{"mark of UTF-16, big end first", "\xFE\xFF" + in("utf-16be"), "", "utf-16be", "utf-16be", false},
		{"header", in("big5"), "text/html; charset=Big5", "big5", "big5", false},
		{"header in quotes", in("gbk"), `text/html; charset="GBK"`, "gbk", "gb18030", false},
		{"header, malformed", in("gbk"), `text/html;; charset=x-gbk, text/html`, "gbk", "gb18030", false},
		{"header before meta", gbkMeta + in("big5"), "text/html; charset=big5", "big5", "big5", false},
		{"meta", gbkMeta + in("gbk"), "text/html", "gbk", "gb18030", false},
		{"meta http-equiv", `<META http-equiv=Content-type content="text/html; Charset = gb2312">` + in("gbk"), "", "gbk", "gb18030", false},
		{"meta far below", strings.Repeat("<!-- x -->", 1000) + gbkMeta + in("gbk"), "", "gbk", "gb18030", false},
		{"meta in a comment", "<!-- <meta charset=big5> -->" + gbkMeta + in("gbk"), "", "gbk", "gb18030", false},
		{"XML", xml + in("big5"), "", "big5", "big5", false},
		{"header is wrong, meta is right", gbkMeta + in("gbk"), "text/html; charset=utf-8", "utf-8", "gb18030", true},
		{"meta says UTF-16, and cannot", `<meta charset=utf-16>` + text, "", "utf-8", "utf-8", false},
		{"UTF-8 that is declared as GBK", gbkMeta + text, "", "gbk", "utf-8", true},
		{"nothing, UTF-8", text, "", "", "utf-8", false},
		{"nothing, ASCII", "<p>hello", "text/html", "", "utf-8", false},
		{"ASCII that is declared", "<p>hello", "text/html; charset=windows-1251", "windows-1251", "windows-1251", false},
		{"UTF-8 that is declared as ISO 8859-1", "© " + text, "text/html; charset=ISO-8859-1", "windows-1252", "utf-8", true},
		{"unknown label", text, "text/html; charset=martian", "martian", "utf-8", true},
		{"HZ", "<p>~{VPND~} ~{NDVP~}", "", "", "hz-gb-2312", false},
		{"HZ that is declared", "<p>~{VPND~}", "text/html; charset=HZ-GB-2312", "hz-gb-2312", "hz-gb-2312", false},
		{"tildes in what is declared", "<p>hello ~{VPND~}", "text/html; charset=utf-8", "utf-8", "utf-8", false},
		{"UTF-16 without mark", in("utf-16le"), "text/html", "", "utf-16le", false},
		{"UTF-16 without mark, big end first", in("utf-16be"), "text/html", "", "utf-16be", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Decode([]byte(c.body), c.contentType)
			if r.Declared != c.declared || r.Used != c.used || r.Mismatch() != c.mismatch {
				t.Errorf("got declared %q, used %q, mismatch %v; want %q %q %v", r.Declared, r.Used, r.Mismatch(), c.declared, c.used, c.mismatch)
			}
			if r.Replaced != 0 {
				t.Errorf("%d bytes were replaced", r.Replaced)
			}
			if strings.Contains(c.used, "hz") && !strings.Contains(string(r.Text), "中文") {
				t.Errorf("got %q", r.Text)
			}
			if strings.Contains(c.body, "hello") || strings.Contains(c.used, "hz") {
				return
			}
			if !strings.HasSuffix(string(r.Text), text) {
				t.Errorf("got %q, want %q at its end", r.Text, text)
			}
		})
	}
}

// TestReplacement: invalid text becomes UTF-8 with replacement, and the result says how much was replaced.
func TestReplacement(t *testing.T) {
	t.Parallel()
	r := Decode([]byte("a\xff\xffb\x00\x81"), "")
	if r.Used != "utf-8" || r.Replaced != 3 || string(r.Text) != "a\uFFFD\uFFFDb\x00\uFFFD" {
		t.Errorf("got %q in %s, %d replaced; want UTF-8 with 3", r.Text, r.Used, r.Replaced)
	}
}

// TestQueryName: queries are sent as browsers would, in GBK unless GB18030 was declared.
func TestQueryName(t *testing.T) {
	t.Parallel()
	body := []byte(encoded(t, "gbk", "中文"))
	for declared, want := range map[string]string{"gb2312": "gbk", "gbk": "gbk", "gb18030": "gb18030"} {
		if r := Decode(body, "text/html; charset="+declared); r.Query() != want || r.Used != "gb18030" {
			t.Errorf("%s: got query %s of %s, want %s of gb18030", declared, r.Query(), r.Used, want)
		}
	}
}

// TestASCIIFirst: an undeclared encoding is found however much ASCII is before the first foreign
// letter, between two of them, and whatever the text stands in.
func TestASCIIFirst(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"gb18030":      "我们今天去图书馆看书，明天在家里休息。他说这个问题很重要，大家都应该知道。",
		"shift_jis":    "今日は図書館で本を読みます。明日は家で休みます。この問題はとても大切だと思います。",
		"windows-1251": "Сегодня мы пойдём в библиотеку, а завтра останемся дома и будем отдыхать.",
	}
	fill := map[string]string{"lines": "int main(void) { return 0; } /* nothing to see here */\n", "one line": "nothing to see here; "}
	for name, text := range texts {
		in := encoded(t, name, text)
		for kind, part := range fill {
			for _, size := range []int{0, 1, 4 << 10, 8<<10 - 20, 8 << 10, 9 << 10, 100 << 10} {
				ascii := strings.Repeat(part, size/len(part)+1)[:size]
				if size > 0 {
					ascii = ascii[:size-1] + "\n" // a letter beside one of another script is no text
				}
				for where, body := range map[string]string{
					"text": ascii + in, "pre": "<html><pre>" + ascii + in + "</pre>", "scattered": ascii + in + ascii + in,
					"after a script": "<script>" + ascii + "</script><p>" + in, "in a script": "<script>" + ascii + in + "</script>",
					"in an attribute": "<p title='" + ascii + in + "'>", "in a comment": "<!--" + ascii + in + "-->",
				} {
					if got := Decode([]byte(body), ""); got.Used != name || got.Detected != name || got.Replaced > 0 {
						t.Errorf("%s after %d bytes of ASCII, %s, %s: read as %s, %d replaced", name, size, kind, where, got.Used, got.Replaced)
					}
				}
			}
		}
	}
}
