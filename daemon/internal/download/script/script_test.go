package script

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

const whole = `
def recurse(n):
    return 0 if n == 0 else recurse(n - 1)

def download(task):
    page = fetch(task.uri, method = "GET", headers = {"Accept": "*/*"})
    for a in html.select(page, "a"):
        follow(a.attrs["href"])
    while False:
        log("never")
    emit({"x": set([1]), "y": json.decode("1")})
    if recurse(3):
        fail("no", permanent = True)
    return page
`

func TestCheck(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("(", 30_000)
	for text, want := range map[string]string{
		whole:                                  "",
		"":                                     "a.star: has no function download: want def download(task): ... at its top level",
		"download = 1":                         "a.star: has no function download",
		"def download(): pass":                 "a.star:1:1: download has 0 parameters: want one, the task",
		"def download(task):\n  x = (1":        "a.star:2:9: got newline, want ')'",
		"def download(task):\n  fech(task)":    "a.star:2:3: undefined: fech",
		"def download(task): open(oopen)":      "a.star:1:21: undefined: open\na.star:1:26: undefined: oopen",
		"load('b', 'c')\ndef download(t): c()": "a.star:1:1: load: the code of a job is one file",
		"def download(task): import os":        "a.star:1:21: got import, want primary expression",
		"x = " + deep:                          "excessive nesting",
		strings.Repeat("#", MaxText+1):         "a.star: has 65537 bytes: want 65536 at most",
	} {
		err := Check(download.Code{Language: Language, File: "a.star", Text: text}, download.ScriptDownload)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

// Code in Python is compiled by the engine, because only the engine can.
func TestCheckOfPython(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"def nobody(": "", " \n": "a.py: is empty: want def parse(page): ... at its top level", strings.Repeat("#", MaxText+1): "a.py: has 65537 bytes: want 65536 at most",
	} {
		err := Check(download.Code{Language: LanguageOf("a.py"), File: "a.py", Text: text}, download.ScriptParse)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

// Each script has its function, and only the names that are useful to it.
func TestCheckOfEachScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of         download.Script
		text, want string
	}{
		{download.ScriptGenerate, "def generate(run):\n  follow(fetch('http://a/' + run.time).text)", ""},
		{download.ScriptGenerate, whole, "a.star: has no function generate: want def generate(run): ... at its top level"},
		{download.ScriptParse, "def parse(page):\n  emit(html.select(page, 'a')[0].text)", ""},
		{download.ScriptParse, "def parse(page):\n  fetch(page.url)", "a.star:2:3: undefined: fetch"},
		{download.ScriptParse, "def parse(): pass", "a.star:1:1: parse has 0 parameters: want one, the page"},
	} {
		err := Check(download.Code{Language: Language, File: "a.star", Text: test.text}, test.of)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %.60q: got %v, want %q", test.of, test.text, err, test.want)
		}
	}
}
