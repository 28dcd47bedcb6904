package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The tests of this file run the commands and the Go client against the real daemon.

// batchLines is how many lines a command sends at once, at most.
const batchLines = 10_000

func TestCommandsAgainstTheDaemon(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	t.Setenv("URIFILTER_URL", p.Addr)
	const n = 30_000
	var in, want bytes.Buffer
	in.WriteString("\ufeff")
	for i := range n {
		fmt.Fprintf(&in, "https://example.com/%d\r\n\nhttps://example.com/%d\n", i, i/2)
		fmt.Fprintf(&want, "https://example.com/%d\n", i)
	}
	file := filepath.Join(t.TempDir(), "in")
	write(t, file, in.String())
	for _, wantNew := range []int{n, 0} {
		// This far below its capacity, the filter takes no new item for seen.
		code, out, errOut := cli(t, nil, "", "filter", file)
		if code != 0 || wantNew > 0 && out != want.String() || wantNew == 0 && out != "" {
			t.Fatalf("got %d and %d bytes, want those of %d items; %s", code, len(out), wantNew, errOut)
		}
		if !strings.HasPrefix(errOut, fmt.Sprintf("60,000 read, %s new, ", human.Count(int64(wantNew)))) {
			t.Errorf("summary: %q", errOut)
		}
	}
	if code, out, _ := cli(t, nil, "x\nhttps://example.com/7\r\n \n\nhttps://example.com/8\r", "check", "--all"); code != 0 ||
		out != "new\tx\nseen\thttps://example.com/7\nnew\t \nnew\thttps://example.com/8\r\n" {
		t.Errorf("check: got %d, %q", code, out)
	}
	if code, out, _ := cli(t, nil, "1\n 1.0 \n\"1\"\n{\"b\":1,\"a\":2}\n{\"a\":2,\"b\":1}\n", "filter", "--input-format=ndjson"); code != 0 || out != "1\n\"1\"\n{\"b\":1,\"a\":2}\n" {
		t.Errorf("json: got %d, %q", code, out)
	}
	if code, out, _ := cli(t, nil, "1\n\n[2]\n", "check", "--input-format=ndjson", "-a"); code != 0 || out != "seen\t1\nnew\t[2]\n" {
		t.Errorf("json check: got %d, %q", code, out)
	}
	bad := strings.Repeat("1\n", batchLines) + "\n{\n"
	if code, _, errOut := cli(t, nil, bad, "filter", "--input-format=ndjson", "-t", "ip"); code != 1 || !strings.HasPrefix(errOut, "urifilter: line 10,002: ") ||
		!strings.Contains(errOut, "malformed_json") || !strings.Contains(errOut, "\nlines before 10001 are done (tail -n +10001 gives the rest); nothing from line 10001 on is remembered\n") {
		t.Errorf("bad line: got %d, %q", code, errOut)
	}
	code, out, errOut := cli(t, nil, bad+"7\n", "filter", "--input-format=ndjson", "-t", "ip", "--skip-invalid")
	if code != 0 || out != "7\n" || !strings.HasPrefix(errOut, "line 10,002: skipped: malformed_json: ") || !strings.Contains(errOut, "\n10,002 read, 1 new, 10,000 duplicates, 1 skipped in ") {
		t.Errorf("bad line skipped: got %d, %q, %q", code, out, errOut)
	}
	for _, args := range [][]string{{"create", "mine", "--capacity", "2k"}, {"create", "mine", "--capacity", "2k"}, {"list"}, {"show", "mine"}, {"drop", "mine", "-y"}} {
		if code, _, errOut := cli(t, nil, "", append([]string{"filters"}, args...)...); code != 0 {
			t.Errorf("filters %q: got %d, %q", args, code, errOut)
		}
	}
}

// A filter beyond its capacity calls new items seen: a run over a file warns about it, with
// and without a summary.
func TestRunPastTheCapacityWarns(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	t.Setenv("URIFILTER_URL", p.Addr)
	if code, _, errOut := cli(t, nil, "", "filters", "create", "pages", "--capacity", "1k", "--error-rate", "0.01", "--on-full", "warn"); code != 0 {
		t.Fatal(errOut)
	}
	numbered := func(from, n int) string {
		var in strings.Builder
		for i := range n {
			fmt.Fprintf(&in, "https://example.com/%d\n", from+i)
		}
		return in.String()
	}
	const warning = "urifilter: warning: filter pages holds about "
	if code, _, errOut := cli(t, nil, numbered(0, 500), "filter", "-t", "pages"); code != 0 || strings.Contains(errOut, "warning") {
		t.Errorf("half full: got %d, %q", code, errOut)
	}
	code, _, errOut := cli(t, nil, numbered(500, 70_000), "filter", "-t", "pages")
	if code != 0 || !strings.Contains(errOut, "\n"+warning) || !strings.Contains(errOut, "items and was made for 1,000: of new items ") || !strings.Contains(errOut, " are called seen now, 1 % was asked for\nhint: ") {
		t.Errorf("past it: got %d, %q", code, errOut)
	}
	if code, _, errOut := cli(t, nil, "x\n", "check", "-q", "-t", "pages"); code != 0 || !strings.HasPrefix(errOut, warning) {
		t.Errorf("check: got %d, %q", code, errOut)
	}
	if code, _, errOut := cli(t, nil, "", "filters", "create", "grows", "--capacity", "1k"); code != 0 {
		t.Fatal(errOut)
	}
	if code, _, errOut := cli(t, nil, numbered(0, 5000), "filter", "-t", "grows"); code != 0 || strings.Contains(errOut, "warning") {
		t.Errorf("past that of one that grows: got %d, %q", code, errOut)
	}
	if code, out, _ := cli(t, nil, "", "filters", "show", "grows"); code != 0 || !strings.Contains(out, " full, grow beyond); made for 1,000, 2 layers") {
		t.Errorf("show: got %d, %q", code, out)
	}
}

// A mark at the start of a batch that is not the first belongs to its item.
func TestByteOrderMarkWithinTheInputIsAnItems(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	t.Setenv("URIFILTER_URL", p.Addr)
	in := strings.Repeat("a\n", batchLines) + "\ufeffa\n\ufeffa\n"
	if code, out, errOut := cli(t, nil, in, "filter"); code != 0 || out != "a\n\ufeffa\n" {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	if code, out, _ := cli(t, nil, in, "check", "--all"); code != 0 || !strings.HasSuffix(out, "seen\ta\nseen\t\ufeffa\nseen\t\ufeffa\n") {
		t.Errorf("check: got %d, %q", code, out[max(0, len(out)-100):])
	}
}

func TestClientAgainstTheDaemon(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	c, err := client.New(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	items := []string{"b", "a\"\\\n\x01\x7f", "b", "新\u2028", "<&>", strings.Repeat("x", 10_000)}
	want := slices.Compact(slices.Clone(items[:2]))
	want = append(want, items[3:]...)
	got, err := c.Filter(t.Context(), "uri", items)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("filter: got %.100q, %v", got, err)
	}
	fresh, err := c.Check(t.Context(), "1", append(want, "z"))
	if err != nil || !slices.Equal(fresh, []bool{false, false, false, false, false, true}) {
		t.Errorf("check: got %v, %v", fresh, err)
	}
	values, err := client.FilterJSON(t.Context(), c, "uri", []any{1, "1", 1.0, map[string]any{"a": nil}})
	if err != nil || len(values) != 3 {
		t.Errorf("values: got %v, %v", values, err)
	}
	for code, items := range map[string][]string{"empty_item": {"ok", ""}, "invalid_utf8": {"ok", "\xff"}, "item_too_large": {"ok", strings.Repeat("x", 1<<20)}} {
		var e *client.Error
		if _, err := c.Filter(t.Context(), "ip", items); !errors.As(err, &e) || e.ErrorCode != code || e.Index == nil || *e.Index != 1 {
			t.Errorf("%s: got %v", code, err)
		}
	}
	if fresh, err := c.Check(t.Context(), "ip", []string{"ok"}); err != nil || !fresh[0] {
		t.Errorf("an item of a refused list is remembered: %v, %v", fresh, err)
	}
	// A stream of some blocks, whose totals come as trailers.
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriter(w)
		for i := range 300_000 {
			fmt.Fprintf(b, "https://example.com/%d\n", i/2)
		}
		w.CloseWithError(b.Flush())
	}()
	var out bytes.Buffer
	total, count, err := c.FilterLines(t.Context(), "uri_parse", r, &out)
	if err != nil || total != 300_000 || count < 149_900 || int64(bytes.Count(out.Bytes(), []byte{'\n'})) != count {
		t.Errorf("stream: got %d, %d, %v", total, count, err)
	}
	info, created, err := c.CreateFilter(t.Context(), "mine", client.FilterSpec{Capacity: 1000})
	if err != nil || !created || info.Capacity != 1000 {
		t.Errorf("create: got %+v, %v, %v", info, created, err)
	}
	var e *client.Error
	if _, _, err := c.CreateFilter(t.Context(), "mine", client.FilterSpec{Capacity: 2000}); !errors.As(err, &e) || e.ErrorCode != "filter_conflict" {
		t.Errorf("create with another capacity: got %v", err)
	}
	if fresh, err := c.Filter(t.Context(), "mine", []string{"a"}); err != nil || len(fresh) != 1 {
		t.Errorf("filter: got %v, %v", fresh, err)
	}
	if cleared, err := c.ClearFilter(t.Context(), "mine"); err != nil || cleared.ID != info.ID || cleared.Generation != info.Generation+1 {
		t.Errorf("clear: got %+v, %v", cleared, err)
	}
	if fresh, err := c.Filter(t.Context(), "mine", []string{"a"}); err != nil || len(fresh) != 1 {
		t.Errorf("after the clear: got %v, %v", fresh, err)
	}
	if err := c.DropFilter(t.Context(), "mine"); err != nil {
		t.Errorf("drop: %v", err)
	}
	if _, err := c.GetFilter(t.Context(), "mine"); !errors.As(err, &e) || !slices.Contains(e.Known, "uri_generator") {
		t.Errorf("get after drop: got %v", err)
	}
}

// The message of a failed run is true: the lines before N are remembered, and their new items
// are printed.
func TestKilledDaemonLosesNoLineThatIsDone(t *testing.T) {
	dir := t.TempDir()
	p := processtest.Start(t, dir, nil)
	var in bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&in, "https://example.com/%d\n", i)
	}
	var out, errOut bytes.Buffer
	printed := writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 {
			time.AfterFunc(20*time.Millisecond, func() { p.Signal(syscall.SIGKILL) })
		}
		return out.Write(b)
	})
	code := run(t.Context(), []string{"filter", "--patience", "0", "-s", p.Addr}, bytes.NewReader(in.Bytes()), printed, &errOut)
	<-p.Done
	m := regexp.MustCompile(`\nlines before (\d+) are done`).FindStringSubmatch(errOut.String())
	if code != 1 || m == nil {
		t.Fatalf("got %d, %s", code, &errOut)
	}
	before, _ := strconv.Atoi(m[1])
	if n := bytes.Count(out.Bytes(), []byte{'\n'}); n > before-1 || n < (before-1)*99/100 {
		t.Errorf("%d items printed of %d lines that are done and new", n, before-1)
	}
	p = processtest.Start(t, dir, nil)
	t.Setenv("URIFILTER_URL", p.Addr)
	done := strings.Join(strings.SplitAfterN(in.String(), "\n", before)[:before-1], "")
	if code, again, _ := cli(t, nil, done, "check", "-q"); code != 0 || again != "" {
		t.Errorf("after the restart: got %d; new again: %.200q", code, again)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// When its reader leaves, the real process does not die of it, but fails, and says from which
// line to go on. Items that it has not sent by then are not remembered.
func TestOutputClosedByItsReader(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	path := processtest.Binary(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "filter", "--server", p.Addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	io.WriteString(in, "a\nb\n")
	line := make([]byte, 4)
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "a\nb\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	r.Close()
	io.WriteString(in, "c\nd\n")
	in.Close()
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(errOut.String(), "urifilter: output: closed by its reader\nlines before 3 are remembered") {
		t.Errorf("got %v, %q", err, &errOut)
	}
	t.Setenv("URIFILTER_URL", p.Addr)
	if code, out, _ := cli(t, nil, "a\nb\nc\nd\n", "check", "-q"); code != 0 || out != "c\nd\n" {
		t.Errorf("afterwards: got %d, new: %q", code, out)
	}
}

// SIGINT ends a run between two batches, with a true report of what is done.
func TestInterruptedProcess(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	path := processtest.Binary(t)
	cmd := exec.Command(path, "filter", "-s", p.Addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "a\nb\n")
	line := make([]byte, 4)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "a\nb\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.Contains(errOut.String(), "interrupt") || !strings.Contains(errOut.String(), "\nlines before 3 are done") {
		t.Errorf("got %v, %q", err, &errOut)
	}
}

// The memory of a run does not grow with its input.
func TestFilterTakesConstantMemory(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil)
	const n = 1_500_000 // 100 MB
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 64<<10)
		for i := range n {
			fmt.Fprintf(b, "https://www.example.com/news/2024/06/18/article-%013d.html\n", i%1000)
		}
		w.CloseWithError(b.Flush())
	}()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var most uint64
	stop := make(chan struct{})
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	}()
	var errOut bytes.Buffer
	code := run(t.Context(), []string{"filter", "-s", p.Addr}, r, io.Discard, &errOut)
	close(stop)
	<-sampled
	if code != 0 || !strings.HasPrefix(errOut.String(), "1,500,000 read, 1,000 new, ") {
		t.Fatalf("got %d, %s", code, &errOut)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}
