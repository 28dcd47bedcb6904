package resp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/npmtest"
)

// others are commands whose answers in the form of the table would say little; with them the table
// has every command. A client is to understand them, and none is an error.
var others = []string{"COMMAND COUNT", "COMMAND", "COMMAND DOCS BF.ADD", "INFO", "CLIENT ID", "CLIENT INFO",
	"BF.ADD d 1", "BF.SCANDUMP d 1", "SADD jobs 1", "UF.RESERVE jobs 60 a b", "MULTI", "DISCARD", "FLUSHDB", "HELLO 2", "HELLO", "RESET", "QUIT"}

// TestTableHasEveryCommand: there is no command that clients are not tried with.
func TestTableHasEveryCommand(t *testing.T) {
	r := newRig(t)
	all, err := r.client(t, 2).Command(t.Context()).Result()
	if err != nil || len(all) < 40 {
		t.Fatal(len(all), err)
	}
	tried := map[string]bool{"bf.loadchunk": true} // by the clients' methods: a dump is bytes
	for _, line := range others {
		tried[strings.ToLower(strings.Fields(line)[0])] = true
	}
	for _, a := range answers {
		tried[strings.ToLower(strings.Fields(a.command)[0])] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !tried[name] {
			t.Errorf("no client is tried with %s", name)
		}
	}
}

// answered is the form in which the programs of testdata/clients tell an answer.
type answered struct {
	value any
	open  bool // an error of which only the beginning is known
}

// parseAnswer parses an answer of the table.
func parseAnswer(t *testing.T, text string) answered {
	t.Helper()
	all := text
	var next func() any
	word := func() string {
		w, rest, _ := strings.Cut(text, " ")
		text = rest
		return w
	}
	next = func() any {
		if strings.HasPrefix(text, "-") {
			e := text[1:]
			text = ""
			return map[string]any{"error": e}
		}
		for _, name := range []string{"+Number of filters", "+Number of items inserted", "+Expansion rate"} { // blanks in a simple string
			if rest, ok := strings.CutPrefix(text, name); ok {
				text = strings.TrimPrefix(rest, " ")
				return name[1:]
			}
		}
		w := word()
		n, _ := strconv.Atoi(w[1:])
		switch w[0] {
		case '+':
			return w[1:]
		case ':':
			return float64(n)
		case '#':
			return w == "#t"
		case '_':
			return nil
		case '$':
			if n < 0 {
				return nil
			}
			s := text[:n]
			text = strings.TrimPrefix(text[n:], " ")
			return s
		case '*':
			list := []any{}
			for range n {
				list = append(list, next())
			}
			return list
		case '%':
			pairs := []any{}
			for range n {
				pairs = append(pairs, []any{next(), next()})
			}
			return map[string]any{"map": pairs}
		}
		t.Fatalf("answer %q of the table", all)
		return nil
	}
	a := answered{value: next(), open: strings.HasPrefix(all, "-") && strings.HasSuffix(strings.TrimSpace(all), ":")}
	if text != "" {
		t.Fatalf("answer %q of the table: %q is left", all, text)
	}
	return a
}

// same compares an answer as a client tells it. Some leave out the first word of an error, if it is ERR.
func (a answered) same(got any) bool {
	want, wantError := a.value.(map[string]any)
	have, gotError := got.(map[string]any)
	if wantError && gotError && want["error"] != nil && have["error"] != nil {
		w, h := strings.TrimPrefix(want["error"].(string), "ERR "), strings.TrimPrefix(have["error"].(string), "ERR ")
		return strings.TrimSpace(h) == strings.TrimSpace(w) || a.open && strings.HasPrefix(h, strings.TrimSpace(w))
	}
	w, wantList := a.value.([]any)
	h, gotList := got.([]any)
	if wantList && gotList {
		return slices.EqualFunc(w, h, func(w, h any) bool { return answered{value: w}.same(h) })
	}
	return reflect.DeepEqual(a.value, got)
}

// drive runs a program that gives a server all commands, and compares what it was answered.
func drive(t *testing.T, r *rig, proto int, cmd *exec.Cmd) {
	t.Helper()
	var commands [][]string
	for _, a := range answers {
		commands = append(commands, strings.Fields(a.command))
	}
	for _, line := range others {
		commands = append(commands, strings.Fields(line))
	}
	input, err := json.Marshal(commands)
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, errOut.Bytes())
	}
	var got []any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != len(commands) {
		t.Fatalf("%d answers to %d commands, %v: %.500s", len(got), len(commands), err, out.Bytes())
	}
	for i, a := range answers {
		text := a.two
		if proto == 3 && a.three != "" {
			text = a.three
		}
		if want := parseAnswer(t, text); !want.same(got[i]) {
			t.Errorf("%s: got %v, want %v", a.command, got[i], want.value)
		}
	}
	for i, line := range others {
		if e, ok := got[len(answers)+i].(map[string]any); ok && e["error"] != nil {
			t.Errorf("%s: %v", line, e)
		}
	}
}

func (r *rig) hostPort(t *testing.T) (string, string) {
	t.Helper()
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// python returns an interpreter that has redis-py.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import redis").Run() == nil {
			return p
		}
	}
	t.Skip("redis-py is not installed: apt-get install python3-redis")
	return ""
}

// TestRedisPy: redis-py understands every answer, in version 2; Debian's knows no other.
func TestRedisPy(t *testing.T) {
	r := newRig(t)
	host, port := r.hostPort(t)
	drive(t, r, 2, exec.CommandContext(t.Context(), python(t), "testdata/clients/drive.py", host, port))
}

// TestSystemNodeClients: ioredis, and node-redis in both versions, understand every answer. They are npm
// packages, in the versions of testdata/clients/package-lock.json.
func TestSystemNodeClients(t *testing.T) {
	dir := npmtest.Install(t, os.DirFS("testdata/clients"))
	for _, c := range []struct {
		client string
		proto  int
	}{{"ioredis", 2}, {"node-redis", 2}, {"node-redis", 3}} {
		t.Run(fmt.Sprint(c.client, c.proto), func(t *testing.T) {
			r := newRig(t)
			host, port := r.hostPort(t)
			cmd := exec.CommandContext(t.Context(), "node", "drive.mjs", c.client, host, port, strconv.Itoa(c.proto))
			cmd.Dir = dir
			drive(t, r, c.proto, cmd)
		})
	}
}

// TestGoRedisTable: go-redis understands every answer, in both versions.
func TestGoRedisTable(t *testing.T) {
	var plain func(v any, err error) any
	plain = func(v any, err error) any {
		if inner, ok := v.(error); ok {
			err = inner
		}
		switch {
		case errors.Is(err, redis.Nil):
			return nil
		case err != nil:
			return map[string]any{"error": err.Error()}
		}
		switch v := v.(type) {
		case int64:
			return float64(v)
		case []any:
			all := []any{}
			for _, e := range v {
				all = append(all, plain(e, nil))
			}
			return all
		case map[any]any: // in any order
			pairs := []any{}
			for k, e := range v {
				pairs = append(pairs, []any{k, plain(e, nil)})
			}
			slices.SortFunc(pairs, byKey)
			return map[string]any{"map": pairs}
		}
		return v
	}
	for _, proto := range []int{2, 3} {
		r := newRig(t)
		c := r.client(t, proto).Conn()
		defer c.Close()
		do := func(line string) any {
			var args []any
			for _, word := range strings.Fields(line) {
				args = append(args, word)
			}
			return plain(c.Do(t.Context(), args...).Result())
		}
		for _, a := range answers {
			text := a.two
			if proto == 3 && a.three != "" {
				text = a.three
			}
			want := parseAnswer(t, text)
			if m, ok := want.value.(map[string]any); ok && m["map"] != nil {
				slices.SortFunc(m["map"].([]any), byKey)
			}
			if got := do(a.command); !want.same(got) {
				t.Errorf("RESP%d: %s: got %v, want %v", proto, a.command, got, want.value)
			}
		}
		for _, line := range others {
			if e, ok := do(line).(map[string]any); ok && e["error"] != nil {
				t.Errorf("RESP%d: %s: %v", proto, line, e)
			}
		}
	}
}

func byKey(a, b any) int { return strings.Compare(a.([]any)[0].(string), b.([]any)[0].(string)) }

// snippet returns the program in docs/resp.md that is in a language, for this server, and what it says
// that it prints: the comments behind the lines that print.
func (r *rig) snippet(t *testing.T, language, comment string) (program, prints string) {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/resp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(page), "```"+language+"\n")
	program, _, ends := strings.Cut(program, "```\n")
	host, port := r.hostPort(t)
	if !found || !ends || !strings.Contains(program, "6380") || host != "127.0.0.1" {
		t.Fatalf("docs/resp.md: no program in %s for the port 6380", language)
	}
	for line := range strings.Lines(program) {
		code, after, commented := strings.Cut(line, comment+" ")
		if strings.Contains(code, "print(") || strings.Contains(code, "Println(") || strings.Contains(code, "console.log(") {
			if !commented {
				t.Errorf("docs/resp.md: what is printed by %s", line)
			}
			prints += after
		}
	}
	return strings.ReplaceAll(program, "6380", port), prints
}

func runSnippet(t *testing.T, cmd *exec.Cmd, prints string) {
	t.Helper()
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if out, err := cmd.Output(); err != nil || string(out) != prints {
		t.Errorf("%v: %v\n%s\nprints\n%s\nand says that it prints\n%s", cmd.Args, err, errOut.Bytes(), out, prints)
	}
}

// TestProgramsOfTheDocs: the programs in docs/resp.md print what they say.
func TestProgramsOfTheDocs(t *testing.T) {
	r := newRig(t)
	t.Run("go", func(t *testing.T) {
		program, prints := r.snippet(t, "go", "//")
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		run := exec.CommandContext(t.Context(), "go", "run", "-trimpath", file)
		run.Env = append(os.Environ(), "CGO_ENABLED=0") // also under the race detector, to share what is compiled
		runSnippet(t, run, prints)
	})
	t.Run("python", func(t *testing.T) {
		program, prints := r.snippet(t, "python", "#")
		runSnippet(t, exec.CommandContext(t.Context(), python(t), "-c", program), prints)
	})
}

// TestSystemNodeProgramOfTheDocs is the same for the one that needs a package of npm.
func TestSystemNodeProgramOfTheDocs(t *testing.T) {
	r := newRig(t)
	program, prints := r.snippet(t, "js", "//")
	cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", program)
	cmd.Dir = npmtest.Install(t, os.DirFS("testdata/clients"))
	runSnippet(t, cmd, prints)
}
