//go:build linux

package scriptengine

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// interpreter is a Python on this machine.
var interpreter = sync.OnceValues(func() (string, error) { return exec.LookPath("python3") })

// newPythonRig makes an engine that has a Python.
func newPythonRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	path, err := interpreter()
	if err != nil {
		t.Fatalf("%v: install python3", err)
	}
	return newRig(t, serveShop, append(change, func(o *Options) { o.Python = path })...)
}

// python runs the body of download in Python, with its lines indented, on the page /start.
func (r *rig) python(body string, change ...func(*download.Setting)) (worker.Page, *worker.Failure) {
	r.t.Helper()
	w := r.work("", change...)
	w.Job.Code = download.Code{Language: script.Python, File: "job.py", Text: "def download(task):\n    " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ") + "\n"}
	page, err := r.engine.Download(r.t.Context(), w)
	return page, worker.FailureOf(err)
}

func TestPython(t *testing.T) {
	r := newPythonRig(t)
	page, failure := r.python(`
import re, random, datetime, urllib.parse
page = fetch(task.uri)
for item in html.select(page, "li.item"):
    emit({"id": item.attrs.get("data-id"), "text": item.text, "name": item.name, "bold": [b.html for b in item.select("b")]})
follow([a.attrs["href"] for a in html.select(page.text, "a")])
emit([page.status, page.headers["x-shop"], page.url == task.uri, task.job, task.attempt, type(page.body).__name__])
emit(fetch(task.uri.replace("start", "latin")).text)
answer = fetch(task.uri.replace("start", "api"), method="post", headers={"Content-Type": "a/b"}, body=json.dumps([1]))
emit(json.loads(answer.text))
emit(re.findall(r"\d+", "a1b22") + [urllib.parse.quote("ä"), str(datetime.date(2026, 11, 23)), 0 <= random.random() < 1])
log("items", 2)
print("printed")
return page
`)
	if failure != nil {
		t.Fatal(failure)
	}
	want := `{"id":"7","text":"A red shoe more","name":"li","bold":["<b>red</b>"]}
{"id":null,"text":"A hatmore","name":"li","bold":[]}
[200,"open",true,"test",2,"bytes"]
"café"
{"method":"POST","body":"[1]","type":"a/b","cookie":""}
["1","22","%C3%A4","2026-11-23",true]
`
	if string(page.Records) != want {
		t.Errorf("records: %s, want %s", page.Records, want)
	}
	if textOf(t, page) != shop || page.Status != 200 {
		t.Errorf("page: %+v", page.Result)
	}
	_ = page.Body.Close()
	if got := strings.Join(r.followed, " "); got != "/shoe?id=7 /hat" {
		t.Errorf("followed %q", got)
	}
	if text := r.log.String(); !strings.Contains(text, `text="items 2"`) || !strings.Contains(text, "text=printed") {
		t.Errorf("log: %s", text)
	}
}

func TestPythonFaults(t *testing.T) {
	r := newPythonRig(t)
	for body, want := range map[string]string{
		"x = 1\nx = x // 0":                    "code: job.py:3:9: ZeroDivisionError: integer division or modulo by zero",
		`fail("no", "items", 3)`:               "code: job.py:2:5: no items 3",
		`fetch("ftp://a.example/")`:            `code: job.py:2:5: ValueError: fetch: "ftp://a.example/": `,
		`emit(fetch)`:                          "TypeError: Object of type method is not JSON serializable",
		`follow(1)`:                            "job.py:2:5: TypeError: 'int' object is not iterable",
		`html.select("<p>", "p[")`:             `html.select: css "p["`,
		`html.select(fetch(task.uri), "p")[0]`: "job.py:2:5: IndexError: list index out of range",
		`return 1`:                             "job.py: download returned a int: want a page that fetch has returned, or None",
		`raise SystemExit(3)`:                  "job.py:2:5: SystemExit: 3",
		`nobody()`:                             "job.py:2:5: NameError: name 'nobody' is not defined",
		`def f(n): return f(n + 1)` + "\nf(1)": "RecursionError",
	} {
		if _, failure := r.python(body); failure == nil || failure.Permanent || !strings.Contains(failure.Reason, want) {
			t.Errorf("%s: got %+v, want %q", body, failure, want)
		}
	}
	if _, failure := r.python(`fail("for ever", permanent=True)`); failure == nil || !failure.Permanent || failure.Reason != "code: job.py:2:5: for ever" {
		t.Errorf("permanent: %+v", failure)
	}
	if _, failure := r.python(`fetch(task.uri.replace("start", "gone"))`); failure == nil || failure.Status != 410 || !failure.Permanent {
		t.Errorf("gone: %+v", failure)
	}
}

// Python that never ends is stopped when its time on the processor is over.
func TestEndlessPython(t *testing.T) {
	r := newPythonRig(t, func(o *Options) { o.CPU = 2 * time.Second })
	if _, failure := r.python("while True: pass"); failure == nil || !strings.Contains(failure.Reason, "killed: job.py: ") {
		t.Errorf("got %+v", failure)
	}
}

// Code in Python tries what it must not do, also by direct system calls.
func TestHostilePython(t *testing.T) {
	r := newPythonRig(t)
	for body, want := range map[string]string{
		"x = [1]\nwhile True: x = x + x":                      "memory: job.py:3:",
		"print(open('/etc/shadow').read())":                   "PermissionError: [Errno 13] Permission denied: '/etc/shadow'",
		"print(open('/etc/passwd').read())":                   "PermissionError",
		"print(open('/proc/self/environ').read())":            "PermissionError",
		"import os\nprint(os.listdir('/'))":                   "PermissionError",
		"open('/tmp/escaped', 'w')":                           "jail: job.py: made a system call that the jail forbids",
		"import os\nos.fork()":                                "jail: job.py: ",
		"import os\nos.system('id')":                          "jail: job.py: ",
		"import os\nos.execv('/bin/sh', ['sh'])":              "PermissionError",
		"import os\nos.kill(os.getppid(), 9)":                 "jail: job.py: ",
		"import os\nos.chmod('/tmp', 0o777)":                  "jail: job.py: ",
		"import os\nos.unlink('/tmp/x')":                      "jail: job.py: ",
		"import _thread\n_thread.start_new_thread(print, ())": "jail: job.py: ",
		"import socket\nsocket.socket()":                      "",
		"import ctypes\nctypes.CDLL(None).socket(2, 1, 0)":    "",
		"import ctypes\nctypes.CDLL(None).system(b'id')":      "",
		"import mmap\nmmap.mmap(-1, 4096, prot=7)":            "",
		"import mmap\nmmap.mmap(-1, 2 << 30)":                 "",
		"import mmap\nmmap.mmap(-1, 2 << 30, prot=1)":         "",
		"import mmap\nx = [mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE, prot=1) for _ in range(99)]": "Cannot allocate memory",
		"import mmap\nmmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE)":                                   "Cannot allocate memory",
		"import multiprocessing.shared_memory as s\ns.SharedMemory(create=True, size=2 << 30)":          "",
		"import os\nos.write(1, b'x' * 100)":                                                            "its process sent an invalid message",
		"import os\nos.close(1)":                                                                        "code: job.py: its process has ended without a message",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			_, failure := r.python(body)
			if failure == nil {
				t.Fatal("was not stopped")
			}
			switch {
			case want == "" && !strings.HasPrefix(failure.Reason, "jail: ") && !strings.Contains(failure.Reason, "ImportError") && !strings.Contains(failure.Reason, "ModuleNotFoundError"):
				t.Errorf("got %q, want an end by the jail, or no such module", failure.Reason)
			case !strings.Contains(failure.Reason, want):
				t.Errorf("got %q, want %q", failure.Reason, want)
			}
		})
	}
}

// If an operator's Python can call any function of the C library, the list of system calls and
// Landlock still protect.
func TestHostilePythonInC(t *testing.T) {
	r := newPythonRig(t)
	look := r.engine.python
	r.engine.python = sync.OnceValues(func() (child.Python, error) {
		p, err := look()
		if err != nil {
			return p, err
		}
		out, err := exec.Command(p.Path, "-I", "-S", "-c", "import ctypes; print(*{l.split()[-1] for l in open('/proc/self/maps') if '/' in l})").Output()
		p.Files = append(p.Files, strings.Fields(string(out))...)
		return p, err
	})
	const begin = "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
	if page, failure := r.python(begin + "emit(c.getpid() > 0)"); failure != nil || string(page.Records) != "true\n" {
		t.Fatalf("C is not called: %+v", failure)
	}
	for body, want := range map[string]string{
		"c.socket(2, 1, 0)":             "jail: ",
		"c.system(b'id')":               "jail: ",
		"c.fork()":                      "jail: ",
		"c.vfork()":                     "jail: ",
		"c.ptrace(0, 0, 0, 0)":          "jail: ",
		"c.kill(1, 0)":                  "jail: ",
		"c.memfd_create(b'x', 0)":       "jail: ",
		"c.mmap(0, 4096, 7, 34, -1, 0)": "jail: ",
		"c.mmap.restype = ctypes.c_void_p\nfor n in range(99):\n    p = c.mmap(0, 64 << 20, 3, 34, -1, 0)\n    if p == 2 ** 64 - 1:\n        fail(n < 8, ctypes.get_errno())\n    ctypes.memset(p, 1, 64 << 20)\n    c.mprotect(ctypes.c_void_p(p), 64 << 20, 1)": "True 12",
		"c.prctl(38, 1, 0, 0, 0)":                                                            "jail: ",
		"c.open(b'/tmp/x', 577, 420)":                                                        "jail: ",
		"c.setrlimit(9, (ctypes.c_ulong * 2)(-1, -1))":                                       "jail: ",
		"fail(c.open(b'/etc/shadow', 0), ctypes.get_errno())":                                "-1 13",
		"fail(c.openat(-100, b'/proc/1/environ', 0), ctypes.get_errno())":                    "-1 13",
		"fail(c.execve(b'/bin/sh', (ctypes.c_char_p * 1)(), None), ctypes.get_errno())":      "-1 13",
		"fail(c.execve(b'/usr/bin/env', (ctypes.c_char_p * 1)(), None), ctypes.get_errno())": "-1 13",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			if _, failure := r.python(begin + body); failure == nil || !strings.Contains(failure.Reason, want) {
				t.Errorf("got %+v, want %q", failure, want)
			}
		})
	}
}

// Code that waits is stopped in time.
func TestPythonThatSleeps(t *testing.T) {
	r := newPythonRig(t)
	_, failure := r.python("import time\ntime.sleep(100000)", func(s *download.Setting) { s.Timeout = 500 * time.Millisecond })
	if failure == nil || failure.Reason != "code: job.py: timeout: ran longer than 500ms" {
		t.Errorf("%+v", failure)
	}
}

func TestCheckPython(t *testing.T) {
	r := newPythonRig(t)
	check := func(text string) string {
		t.Helper()
		err := r.engine.Check(t.Context(), download.Code{Language: script.Python, File: "a.py", Text: text}, download.ScriptDownload)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for text, want := range map[string]string{
		"import os\ndef download(task):\n    return fetch(task.uri)\n": "",
		"def download(task):\n  x = (1":                                "a.py:2:7: '(' was never closed",
		"def download(task:\n":                                         "a.py:1:13: ",
		"x = 1":                                                        "a.py: has no function download: want def download(...): at its top level",
		"def download(): pass":                                         "a.py:1:1: download has other than one parameter",
		"raise SystemExit\ndef download(task): pass":                   "", // none of it is run
		"x = " + strings.Repeat("(", 30_000):                           "a.py:1:",
		"x = '\x00'":                                                   "a.py:",
	} {
		if got := check(text); want == "" && got != "" || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
	none := New(Options{Program: r.engine.o.Program})
	if err := none.Check(t.Context(), download.Code{Language: script.Python, File: "a.py", Text: "def download(task): pass"}, download.ScriptDownload); err == nil || !strings.Contains(err.Error(), "script.python") {
		t.Errorf("without a Python: %v", err)
	}
}
