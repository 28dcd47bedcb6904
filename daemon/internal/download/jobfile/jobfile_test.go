package jobfile

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func TestParse(t *testing.T) {
	t.Parallel()
	j, source, err := Parse("news.yaml", []byte(`
name: news
priority: 7
filter: uri_download
uris: uris.txt
setting: {dispatch: 10, max_download_times: 5, timeout: 20s, prior: urgency, proxy: ["socks5://u:p@proxy:1080", "socks5h://proxy"], cookie: "a=b",
  headers: {accept-language: en}, delay: 0s, concurrency: 4, robots: false, max_bytes: 1MiB, report_mails: [a@example.com]}
`))
	want := Default()
	want.Name, want.Priority, want.Filter = "news", 7, "uri_download"
	s := &want.Setting
	s.Dispatch, s.MaxAttempts, s.Timeout, s.Lane, s.Proxies = 10, 5, 20*time.Second, "urgency", []string{"socks5://u:p@proxy:1080", "socks5h://proxy"}
	s.Cookie, s.Headers, s.Delay, s.Concurrency, s.Robots, s.MaxBytes = "a=b", map[string]string{"Accept-Language": "en"}, 0, 4, false, 1<<20
	s.ReportMails = []string{"a@example.com"}
	if err != nil || !reflect.DeepEqual(j, want) || source.File != "uris.txt" {
		t.Errorf("got %+v, %+v, %v, want %+v", j, source, err, want)
	}
	j, source, err = Parse("body", []byte(`{"name":"a","uris":["http://a/","http://b/"]}`))
	if err != nil || j.Setting.Delay != time.Second || len(source.List) != 2 || source.List[1].URI != "http://b/" {
		t.Errorf("JSON: %+v, %+v, %v", j, source, err)
	}
	if _, source, err = Parse("body", []byte(`{name: a, uris: "https://example.com/list.txt"}`)); err != nil || source.URL != "https://example.com/list.txt" {
		t.Errorf("a URL: %+v, %v", source, err)
	}
}

// Every fault is reported with file, line and key, and all of them at once.
func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "x.yaml: empty",
		"name: [":                 "not YAML",
		"nam: a":                  "x.yaml:1: nam: unknown key; did you mean name?",
		"name: A":                 `x.yaml:1: name: "A": want up to 63`,
		"priority: 3":             `x.yaml: name: "": want up to 63`,
		"name: a\npriority: 10":   "x.yaml:2: priority: 10: want 0 to 9",
		"name: a\nfilter: 'a b'":  "x.yaml:2: filter: ",
		"name: a\nuris: {a: b}":   "x.yaml:2: uris: want the name",
		"name: a\nuris: [a, '']":  "x.yaml:2: uris[0]: \"a\": want http://",
		"name: a\ncode: job.star": "x.yaml:2: code: is for download_engine: script, and this job has http",
		"name: a\nsetting: {download_engine: script}":                                                         "x.yaml: code: is missing: download_engine: script wants",
		"name: a\ncode: [x]\nsetting: {download_engine: script}":                                              "x.yaml:2: code: want the name of a file",
		"name: a\ncode: {file: a/b.star, text: x}\nsetting: {download_engine: script}":                        `x.yaml:2: code.file: "a/b.star": want a name without a folder`,
		"name: a\ncode: {text: 'def download(task): fetsch()'}\nsetting: {download_engine: script}":           "job.star:1:21: undefined: fetsch",
		"name: a\ncode: {file: a.star, text: 'def download(task:'}\nsetting: {download_engine: script}":       "a.star:1:19: got ':', want ')'",
		"name: a\ncode: {txt: ''}\nsetting: {download_engine: script}":                                        "x.yaml:2: code.txt: unknown key; did you mean text?",
		"name: a\ncode: {language: lua, text: ''}\nsetting: {download_engine: script}":                        `job.star: language "lua": want starlark or python`,
		"name: a\ncode: {sha256: '00', text: 'def download(task): pass'}\nsetting: {download_engine: script}": "x.yaml:2: code.sha256: 00 is not that of the text, ",
		"name: a\ngenerate: {every: 1h}":                                                                      "x.yaml:2: generate.code: is missing: want the name of a file beside this one, such as generate.star",
		"name: a\nparse: x":                                                                                   "x.yaml:2: parse: a text: want keys and values: code, filter",
		"name: a\nparse: {code: {text: 'def parse(p): fetch(p.url)'}}":                                        "job.star:1:15: undefined: fetch",
		"name: a\ngenerate: {code: g.star, every: 1s}":                                                        "x.yaml:2: generate.every: 1s: want 10s to ",
		"name: a\ngenerate: {code: g.star, every: 1h0.5s}":                                                    "x.yaml:2: generate.every: 1h0m0.5s: want ",
		"name: a\ngenerate: {code: g.star, host: 'http://a/'}":                                                "x.yaml:2: generate.host: \"http://a/\": want the name of a host",
		"name: a\ngenerate: {code: g.star, host: 'a:80'}":                                                     "x.yaml:2: generate.host: \"a:80\": want the name of a host",
		"name: a\ngenerate: {code: g.star, filter: 'a b'}":                                                    "x.yaml:2: generate.filter: ",
		"name: a\ngenerate: {cod: g.star}":                                                                    "x.yaml:2: generate.cod: unknown key; did you mean code?",
		"name: a\nsetting:\n  timeout: 6m":                                                                    "x.yaml:3: setting.timeout: 6m0s: want 100ms to 5m0s",
		"name: a\nsetting:\n  timeout: 30":                                                                    `x.yaml:3: setting.timeout: "30": want a time with its unit`,
		"name: a\nsetting:\n  delay: -1s":                                                                     "x.yaml:3: setting.delay",
		"name: a\nsetting: {dispatch: 0}":                                                                     "x.yaml:2: setting.dispatch: 0: want 1 to 100000",
		"name: a\nsetting: {max_download_times: 101}":                                                         "x.yaml:2: setting.max_download_times",
		"name: a\nsetting: {concurrency: 0}":                                                                  "x.yaml:2: setting.concurrency",
		"name: a\nsetting: {max_bytes: 0}":                                                                    "x.yaml:2: setting.max_bytes",
		"name: a\nsetting: {prior: high}":                                                                     `x.yaml:2: setting.prior: "high": want normal, urgency or foreign`,
		"name: a\nsetting: {download_engine: ftp}":                                                            `x.yaml:2: setting.download_engine: "ftp": want http`,
		"name: a\nsetting: {download_engine: browser, download_js: ' '}":                                      "x.yaml:2: setting.download_js: is empty",
		"name: a\nsetting: {download_engine: browser, download_js: '" + strings.Repeat("x", 64<<10+1) + "'}":  "x.yaml:2: setting.download_js: has 65537 bytes",
		"name: a\nsetting: {download_engine: lynx}":                                                           `"lynx": want http, browser or script`,
		"name: a\nsetting: {download_js: 'x()'}":                                                              "x.yaml:2: setting.download_js: is for download_engine: browser",
		"name: a\nsetting: {proxy: ['http://a/path']}":                                                        "setting.proxy[0]: want http://host:port",
		"name: a\nsetting: {proxy: ['ftp://a']}":                                                              "setting.proxy[0]: want http://host:port",
		"name: a\nsetting: {cookie: \"a\\r\\nb\"}":                                                            "x.yaml:2: setting.cookie: cannot stand in a header",
		"name: a\nsetting: {headers: [a]}":                                                                    "x.yaml:2: setting.headers: want names and values",
		"name: a\nsetting: {headers: {'a b': c}}":                                                             "x.yaml:2: setting.headers: \"a b\" cannot be",
		"name: a\nsetting: {headers: {host: c}}":                                                              "x.yaml:2: setting.headers.host: is set by the worker",
		"name: a\nsetting: {headers: {cookie: c}}":                                                            "is set by the worker: give setting.cookie",
		"name: a\nsetting: {headers: {a: c, A: d}}":                                                           "x.yaml:2: setting.headers.A: appears twice",
		"name: a\nsetting: {headers: {a: [c]}}":                                                               "x.yaml:2: setting.headers.a: want a text",
		"name: a\nsetting: {report_mails: [nobody]}":                                                          "setting.report_mails[0]",
		"name: a\n---\nname: b":                                                                               "second document",
		"name: a\npriority: 11\nsetting: {concurrency: 0, timeout: 10m, x: 1}":                                "setting.x: unknown key",
	} {
		_, _, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	_, _, err := Parse("x.yaml", []byte("name: a\npriority: 11\nsetting: {concurrency: 0, timeout: 10m, x: 1}"))
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("%d faults are told, want 4: %v", n, err)
	}
}

// Each invalid URI of a list is reported with its line, up to a bound.
func TestURIFaults(t *testing.T) {
	t.Parallel()
	_, _, err := Parse("x.yaml", []byte("name: a\nuris:\n- http://a/\n- ftp://b/\n- [c]\n- d\n"))
	want := `x.yaml:5: uris[2]: want a URI`
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.yaml:4: uris[1]: \"ftp://b/\"") || !strings.Contains(err.Error(), "x.yaml:6: uris[3]: \"d\"") {
		t.Errorf("%v", err)
	}
	_, _, err = Parse("x.yaml", []byte("name: a\nuris:\n"+strings.Repeat("- a\n", 1000)))
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "x.yaml:2: uris: and 980 more that are no URIs") {
		t.Errorf("%v", err)
	}
	if _, _, err = Parse("x.yaml", []byte("name: a\nsetting: {headers: {\"A\\nB\": c}}")); err == nil || !strings.Contains(err.Error(), `x.yaml:2: setting.headers: "A\nB" cannot`) {
		t.Errorf("%v", err)
	}
}

// A job may have three scripts, each in a separate file, with filters other than the default ones.
func TestScripts(t *testing.T) {
	t.Parallel()
	text := []byte("name: a\nsetting: {download_engine: script}\ncode: d.star\ngenerate: {code: g.star, every: 1h, host: WWW.Example.com}\nparse: {code: p.star, filter: ''}\n")
	_, source, err := Parse("a.yaml", text)
	want := []CodeFile{{"code", download.ScriptDownload, "d.star"}, {"generate.code", download.ScriptGenerate, "g.star"}, {"parse.code", download.ScriptParse, "p.star"}}
	if err != nil || !reflect.DeepEqual(source.Codes, want) {
		t.Fatalf("%+v, %v, want %+v", source.Codes, err, want)
	}
	for _, file := range want {
		if text, err = WithCode("a.yaml", text, file, "def "+string(file.Script)+"(x):\n  pass\n"); err != nil {
			t.Fatal(err)
		}
	}
	j, source, err := Parse("a.yaml", text)
	g, p := j.Setting.Generate, j.Setting.Parse
	if err != nil || len(source.Codes) != 0 || j.Code.Text != "def download(x):\n  pass\n" || g.Code.Text != "def generate(x):\n  pass\n" || p.Code.Text != "def parse(x):\n  pass\n" {
		t.Errorf("%+v, %+v, %v", j, source, err)
	}
	if g.Every != time.Hour || g.Filter != "uri_generator" || g.Host != "www.example.com" || g.Code.File != "g.star" || p.Filter != "" {
		t.Errorf("generate %+v, parse %+v", g, p)
	}
	if _, err := WithCode("a.yaml", text, want[2], "def parse(x): fetch(x.url)"); err == nil || !strings.Contains(err.Error(), "p.star:1:15: undefined: fetch") {
		t.Errorf("code that is wrong: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("name: a\nuris: [b]\nsetting: {headers: {a: b}, delay: 1s}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if j, _, err := Parse("x", data); err == nil && j.Name == "" {
			t.Errorf("%q: a job without a name", data)
		}
	})
}
