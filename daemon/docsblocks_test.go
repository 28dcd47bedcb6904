//go:build linux

package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// block is a fenced block of a document.
type block struct {
	line     int
	language string
	text     string
	notRun   string // the reason of the marker before it, "" without one
}

var (
	fence        = regexp.MustCompile("^ *```([a-z]*)$")
	notRun       = regexp.MustCompile(`^ *<!-- not run: (.+) -->$`)
	shells       = map[string]bool{"sh": true, "bash": true, "shell": true, "console": true}
	programs     = map[string]bool{"python": true, "go": true, "js": true, "java": true}
	runWith      = regexp.MustCompile(`^(?:#|//) (\S+); run it with: (.+)\n`)
	printed      = regexp.MustCompile(`(?m)(?:#|//) prints (.+)$`)
	shellCommand = regexp.MustCompile(`(?m)^ *(dist/|sudo )?(urifilter|uridownloader|curl|go tool mage|go test|redis-cli) `)
)

// blocksOf returns the fenced blocks of a document, and the numbers of lines with commands that are indented instead.
func blocksOf(text string) (all []block, indented []int) {
	var open *block
	marker := ""
	for i, line := range strings.Split(text, "\n") {
		begin := fence.FindStringSubmatch(line)
		switch {
		case open != nil && begin != nil:
			all, open, marker = append(all, *open), nil, ""
		case open != nil:
			open.text += line + "\n"
		case begin != nil:
			open = &block{line: i + 1, language: begin[1], notRun: marker}
		default:
			if strings.HasPrefix(line, "    ") && shellCommand.MatchString(line) {
				indented = append(indented, i+1)
			}
			marker = ""
			if found := notRun.FindStringSubmatch(line); found != nil {
				marker = found[1]
			}
		}
	}
	return all, indented
}

// TestBlocksOfTheDocs runs every block of commands in README.md and docs/ as a reader would who pastes it: in the order
// of the page, on a machine that has the two programs, their daemons, and lists of URIs of their own. On the pages that people
// begin with it also runs the programs: their first line names the file and the command. A block that cannot be run
// so says why, in a line such as <!-- not run: it sets up your servers --> before it.
func TestBlocksOfTheDocs(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, program := range []string{"urifilter", "uridownloader"} {
		if err := testserver.Program(filepath.Join(bin, program), "-trimpath", "./"+program); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	ran := 0
	for _, page := range append(pages, "../README.md") {
		if strings.HasSuffix(page, ".zh.md") {
			continue // its blocks are those in English: TestLanguagesSayTheSame
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(page, "../")
		first := strings.HasPrefix(name, "README") || strings.HasPrefix(name, "docs/quickstart")
		all, indented := blocksOf(string(text))
		if i := slices.IndexFunc(all, func(b block) bool { return shells[b.language] }); i < 0 || all[i].line > 25 {
			t.Errorf("%s: nothing to paste on its first screen", name)
		}
		for _, line := range indented {
			t.Errorf("%s:%d: a command that is not in a block of ```sh", name, line)
		}
		var run []block
		for _, b := range all {
			switch {
			case b.language == "" && shellCommand.MatchString(b.text):
				t.Errorf("%s:%d: a block of commands without a language: want ```sh", name, b.line)
			case b.notRun != "":
			case first && programs[b.language] && !runWith.MatchString(b.text):
				t.Errorf("%s:%d: a program whose first line does not say \"seen.py; run it with: python3 seen.py\"", name, b.line)
			case shells[b.language], first && programs[b.language]:
				run = append(run, b)
			}
		}
		if ran += len(run); len(run) > 0 {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				runBlocks(t, bin, name, run)
			})
		}
	}
	if ran < 15 {
		t.Errorf("%d blocks are run: is the marker on all of them?", ran)
	}
}

func runBlocks(t *testing.T, bin, page string, blocks []block) {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{"../docs": "docs", "../configs": "configs"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(bin, filepath.Join(dir, "dist")); err != nil {
		t.Fatal(err)
	}
	var links strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&links, "https://example.com/%d\n", i)
	}
	for name, text := range map[string]string{
		"links.txt": links.String(), "urls.txt": links.String(), "failed.txt": links.String(),
		".curlrc": "fail-with-body\nsilent\nshow-error\n", // an answer of 400 and above is an error
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(goCommand(t, "..", nil, "env", "GOCACHE", "GOMODCACHE"))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a href="/page/2/">next</a> <a href="/">top</a>`))
	}))
	t.Cleanup(site.Close)
	env := append(os.Environ(), "GOCACHE="+caches[0], "GOMODCACHE="+caches[1], "PYTHONPATH="+filepath.Join(repository, "python", "src"), "PYTHONDONTWRITEBYTECODE=1", "HOME="+dir, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "URIFILTER_TOKEN=")
	resp := ""
	start := func(program string) (addr string) {
		p := &testserver.Process{}
		for {
			addr = testserver.Free(t)
			cmd := exec.Command(filepath.Join(bin, program), "serve", "--data-dir", filepath.Join(dir, ".run", program), "--listen", addr)
			cmd.Dir, cmd.Env = dir, env
			if program == "urifilter" {
				resp = testserver.Free(t)
				cmd.Env = append(slices.Clone(env), "URIFILTER_RESP_LISTEN="+resp)
			}
			if p.Start(t, cmd, filepath.Join(dir, program+".log"), []string{`"msg":"ready"`, "msg=ready"}, []string{"address already in use"}) {
				t.Cleanup(p.Kill)
				return addr
			}
		}
	}
	filter, downloader := start("urifilter"), start("uridownloader")
	env = append(env, "URIFILTER_URL=http://"+filter, "URIDOWNLOADER_URL=http://"+downloader)
	_, respPort, _ := strings.Cut(resp, ":")
	for _, b := range blocks {
		text := strings.NewReplacer("127.0.0.1:8000", filter, "127.0.0.1:8001", downloader, "redis-cli -p 6380", "redis-cli -e -p "+respPort,
			"https://quotes.toscrape.com", site.URL).Replace(b.text)
		if found := runWith.FindStringSubmatch(text); programs[b.language] && found != nil {
			if err := os.WriteFile(filepath.Join(dir, found[1]), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if text = found[2]; b.language == "go" { // with the client of this tree
				text = strings.Replace(text, "go run ", "go -C '"+repository+"' run -trimpath '"+dir+"'/", 1)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-eo", "pipefail", "-c", text)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s:%d: %v\n%s\n%s\nhint: mend it, or say before it why a reader cannot run it as it stands: <!-- not run: ... -->", page, b.line, err, text, out)
		}
		for _, m := range printed.FindAllStringSubmatch(b.text, -1) {
			if programs[b.language] && !strings.Contains("\n"+string(out), "\n"+m[1]+"\n") {
				t.Errorf("%s:%d: it does not print %s\n%s", page, b.line, m[1], out)
			}
		}
	}
}
