package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

func program(t *testing.T, ctx context.Context, out io.Writer, args ...string) (code int, text, errText string) {
	t.Helper()
	root := NewRoot(&cobra.Command{Use: "prog", Short: "A program"}, &cobra.Group{ID: "all", Title: "All:"})
	job := &cobra.Command{Use: "job"}
	Parent(job)
	job.AddCommand(&cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "a job")
		return err
	}})
	watch := &cobra.Command{Use: "watch", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		<-cmd.Context().Done()
		return Stopped(cmd.Context())
	}}
	watch.Flags().Duration("interval", 0, "")
	careless := &cobra.Command{Use: "careless", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintln(cmd.OutOrStdout(), "does not look whether this is written")
		return nil
	}}
	Add(root, "all", job, watch, careless)
	var o, e bytes.Buffer
	line := Line{Args: args, In: strings.NewReader(""), Out: &o, Err: &e, Hint: func(error) string { return "" }}
	if out != nil {
		line.Out = out
	}
	code = Run(ctx, root, line)
	return code, o.String(), e.String()
}

// TestMistyped: whatever is mistyped is named, with what was meant if that can be guessed, and exit code 2.
func TestMistyped(t *testing.T) {
	for args, want := range map[string]string{
		"jbo":                  `unknown command "jbo"; did you mean job?`,
		"job lst":              `job: unknown command "lst"; did you mean list?`,
		"watch --intervall 1s": "unknown flag: --intervall; did you mean --interval?",
		"watch --nonsense":     "unknown flag: --nonsense\n",
		"watch -z":             "unknown shorthand flag: 'z' in -z\n",
		"--versoin":            "unknown flag: --versoin; did you mean --version?",
		"help nonsense":        `unknown command "nonsense"` + "\n",
		"help jbo":             `unknown command "jbo"; did you mean job?`,
		"help job lst":         `job: unknown command "lst"; did you mean list?`,
		"completion tcsh":      `completion: unknown command "tcsh"`,
		"completion bahs":      `completion: unknown command "bahs"; did you mean bash?`,
	} {
		code, out, errText := program(t, t.Context(), nil, strings.Fields(args)...)
		if code != ExitUsage || out != "" || !strings.HasPrefix(errText, "prog: ") || !strings.Contains(errText, want) {
			t.Errorf("%s: code %d, output %q, errors %q; want 2 and %q", args, code, out, errText, want)
		}
	}
	for args, want := range map[string]string{
		"help":            "All:",
		"help job":        "list",
		"help job list":   "prog job list",
		"help help":       "prog help",
		"completion":      "bash",
		"completion bash": "# bash completion",
		"__complete j":    "job",
		"job":             "list",
	} {
		if code, out, errText := program(t, t.Context(), nil, strings.Fields(args)...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, output %.200q, errors %q; want 0 and %q", args, code, out, errText, want)
		}
	}
}

// standardOutput is a pipe with the name of the standard output.
type standardOutput struct{ *os.File }

func (f standardOutput) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if failed, ok := err.(*fs.PathError); ok {
		failed.Path = os.Stdout.Name()
	}
	return n, err
}

// TestReaderLeft: with `| head -1` a program ends without a word, as if SIGPIPE had ended it.
func TestReaderLeft(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	out := standardOutput{write}
	for _, args := range []string{"job list", "job", "help", "help job", "completion bash", "--version", "--help"} {
		if code, _, errText := program(t, t.Context(), out, strings.Fields(args)...); code != exitNoReader && code != ExitOK || errText != "" {
			t.Errorf("%s: code %d, %q; want no message", args, code, errText)
		}
	}
	if code, _, _ := program(t, t.Context(), out, "job", "list"); code != exitNoReader {
		t.Errorf("code %d, want %d", code, exitNoReader)
	}
}

// fullDisk is an output for which there is no room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOutputLost: a command whose output is lost has failed, also if it does not look.
func TestOutputLost(t *testing.T) {
	for _, args := range []string{"job list", "careless", "job", "help", "help job", "completion", "completion bash", "--version", "--help", "job list --help"} {
		if code, _, errText := program(t, t.Context(), fullDisk{}, strings.Fields(args)...); code != ExitFailure || errText != "prog: no space left on device\n" {
			t.Errorf("%s: code %d, %q", args, code, errText)
		}
	}
	if code, _, errText := program(t, t.Context(), fullDisk{}, "jbo"); code != ExitUsage || !strings.Contains(errText, "did you mean job?") {
		t.Errorf("code %d, %q", code, errText)
	}
	for _, out := range []io.Writer{io.Discard, os.Stdout} {
		if got := terminal.Stream(&output{to: terminal.Protect(out)}); got != out {
			t.Errorf("the stream is %v", got)
		}
	}
}

// TestStopped: a command that shows things until Ctrl-C ends with 130 and without a word.
func TestStopped(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(Signaled{syscall.SIGINT})
	if code, out, errText := program(t, ctx, nil, "watch"); code != 130 || out+errText != "" {
		t.Errorf("code %d, %q, %q", code, out, errText)
	}
}
