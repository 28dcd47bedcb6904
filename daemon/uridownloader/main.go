// Command uridownloader downloads the URIs that pass the filter: it takes in jobs, hands out
// their tasks, and stores what was downloaded.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/master"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/crawl"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/form"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/graph"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/job"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/records"

	_ "golang.org/x/crypto/x509roots/fallback" // authorities where the system has none, as in an image
)

const (
	program     = "uridownloader"
	defaultPath = "/etc/uridownloader/uridownloader.yaml"
	configEnv   = "URIDOWNLOADER_CONFIG"

	groupJobs  = "jobs"
	groupCrawl = "crawl"
	groupRun   = "run"
	groupOther = "other"
)

// gcPercent is how much the heap may grow between two collections. The live heap is small compared with what SQLite and
// filters hold outside it: twice the runtime's default saves a tenth of the processor time for a twentieth more memory.
const gcPercent = 200

func main() { os.Exit(runMain()) }

func runMain() int {
	if child.Asked(os.Args[1:]) { // started by a worker to run the code of a job
		return child.Main(os.Args[1:])
	}
	if chromium.Asked(os.Args[1:]) { // started by a worker to load a page
		return chromium.Main(os.Args[1:])
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// If the reader of our output goes away, that is an error to handle, not a reason to die.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := command.WithSignals(context.Background())
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return command.Run(ctx, newRootCommand(), command.Line{Args: args, In: in, Out: out, Err: errOut, Hint: calls.Hint})
}

func newRootCommand() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   program,
		Short: "Download what is new, politely",
		Long: `uridownloader takes jobs in (settings with the URIs that belong to them), downloads each
URI once, at a pace that its host can bear, and keeps what came and what did not.

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 after Ctrl-C (128 and the
number of the signal); "service" has two more.`,
		Example: `  # start it on this machine, with its data under the present folder
  uridownloader serve --data-dir ./data

  # give it a job, and look what became of it
  uridownloader job add news.yaml
  uridownloader job show news
  uridownloader tasks news --state failed`,
	},
		&cobra.Group{ID: groupJobs, Title: "Jobs:"},
		&cobra.Group{ID: groupCrawl, Title: "Crawl:"},
		&cobra.Group{ID: groupRun, Title: "Run it:"},
		&cobra.Group{ID: groupOther, Title: "More:"},
	)
	command.Add(root, groupJobs, job.NewCommand(), records.NewTasks(), records.NewLogs(), records.NewData(), newTopCommand())
	command.Add(root, groupCrawl, crawl.NewCommand(), graph.NewCommand(), form.NewCommand())
	command.Add(root, groupRun, newServeCommand(), newMasterCommand(), newDispatchCommand(), newWorkerCommand(),
		newVerifyCommand(), newConfigCommand(),
		command.NewToken(command.Tokens{Program: program, Scopes: settings.Scopes(), Usual: []string{master.ScopeSubmit}, Other: "urifilter", OtherScopes: configs.Scopes()}), newServiceCommand())
	command.Add(root, groupOther, command.NewVersion(program),
		command.NewMan(program, "  uridownloader man --dir ~/.local/share/man/man1\n  man uridownloader-job"))
	return root
}
