// Package crawl is the command crawl: it reads the command line, shows the progress of the crawl,
// and its outcome.
package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/graph"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

type options struct {
	setting crawl.Setting
	out     string
	resume  bool
	retry   bool
	asJSON  bool
	token   command.Credential // for the daemon of --server
}

// NewCommand makes the command.
func NewCommand() *cobra.Command {
	o := options{setting: crawl.Default()}
	cmd := &cobra.Command{
		Use:   "crawl SEED... [--max-pages N] [--out DIR]",
		Short: "Follow links from seeds, and store exactly as many pages as asked for",
		Long: `Follow links from one or more URIs breadth first, and store pages in a folder: the pages as
UTF-8 text, an index of them, and the graph of their links. Exactly --max-pages pages are stored,
or all that there are. The crawl asks robots.txt and leaves time between two requests to a host.

It may be stopped by Ctrl-C, or killed: with --resume it goes on, and nothing is lost or
stored twice.`,
		Example: `  # 100 pages of one site, into the folder crawl-example.com
  uridownloader crawl https://example.com/ --contact me@example.com

  # 10,000 pages of all hosts of two domains, 16 at once
  uridownloader crawl https://example.com/ https://example.org/ --scope domain --max-pages 10000 --threads 16 --out sites

  # go on after Ctrl-C, a crash or a power cut
  uridownloader crawl --resume --out sites
  uridownloader crawl --resume --out sites --retry-failed

  # a server of your own on this machine, as fast as it can
  uridownloader crawl http://localhost:8080/ --allow-private --delay 0 --threads 16

  # what only users of the site see
  uridownloader crawl https://bbs.example/ --login bbs.yaml

  # share what is seen with other crawls, by a urifilter daemon
  uridownloader crawl https://example.com/ --server http://127.0.0.1:8000 --filter uri`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) }
	bind(cmd.Flags(), &o.setting)
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "`folder` of the crawl (default: crawl- and the host of the first seed)")
	f.BoolVar(&o.resume, "resume", false, "continue the crawl in the folder of --out, with its settings")
	f.BoolVar(&o.retry, "retry-failed", false, "with --resume: fetch the URIs that have failed once more")
	o.token.Register(cmd, "URIFILTER")
	f.BoolVar(&o.asJSON, "json", false, "print a JSON line each second, and one at the end")
	for name, values := range map[string][]string{"scope": crawl.Scopes(), "graph": graph.Formats()} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

// bind makes the flags of a setting, with its present values as the defaults.
func bind(f *pflag.FlagSet, s *crawl.Setting) {
	f.Int64VarP(&s.MaxPages, "max-pages", "n", s.MaxPages, "store exactly this many `pages`, or all if there are fewer")
	f.IntVar(&s.Threads, "threads", s.Threads, "fetch this many `pages` at once; with 1 the order is always the same")
	f.StringVar(&s.Scope, "scope", s.Scope, "follow links within this `scope` of the seeds: host, domain, prefix (their folder) or all")
	f.IntVar(&s.MaxDepth, "depth", s.MaxDepth, "follow at most this many `links` from a seed; -1: no bound")
	f.DurationVar(&s.Delay, "delay", s.Delay, "`time` between two requests to a host, from start to start")
	f.IntVar(&s.PerHost, "per-host", s.PerHost, "`requests` to a host at once; 0: 2, or as many as threads if there is no delay")
	f.StringVar(&s.Contact, "contact", s.Contact, "your `URL or address`, sent with each request for the owners of sites")
	f.BoolVar(&s.Robots, "robots", s.Robots, "obey robots.txt; --robots=false is for sites of your own")
	f.BoolVar(&s.Private, "allow-private", s.Private, "call private and loopback addresses, too")
	f.IntVar(&s.Attempts, "attempts", s.Attempts, "try a page that fails at most this many `times`")
	f.DurationVar(&s.Timeout, "timeout", s.Timeout, "`time` that a page may take, with its redirects")
	f.Int64Var(&s.MaxBytes, "max-bytes", s.MaxBytes, "`bytes` of the longest page that is stored")
	f.BoolVar(&s.Images, "images", s.Images, "follow links to images, too")
	f.Int64Var(&s.MaxPerHost, "max-per-host", s.MaxPerHost, "store at most this many `pages` of a host; 0: no bound")
	f.IntVar(&s.MaxURI, "max-uri", s.MaxURI, "follow no link of more than this many `bytes`")
	f.IntVar(&s.MaxSegments, "max-segments", s.MaxSegments, "follow no link whose path has more than this many `parts`")
	f.IntVar(&s.MaxRepeated, "max-repeated", s.MaxRepeated, "follow no link whose path has the same part more than this many `times`")
	f.StringVar(&s.FilterURL, "server", s.FilterURL, "`URL` of a urifilter daemon; what its filter has seen is not crawled")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "type" { // the old name
			name = "filter"
		}
		return pflag.NormalizedName(name)
	})
	f.Var(&filterFlag{f, &s.FilterType}, "filter", "`name` of the filter there; alone: of the daemon on this machine, or of URIFILTER_URL")
	f.StringVar(&s.Login, "login", s.Login, "log in first, by the steps in `file` (\"form\" says what is in one)")
	f.StringVar(&s.Graph, "graph", s.Graph, "at the end, also write the graph as graphml, dot or csv: DIR/graph.`FORMAT`")
	f.BoolVar(&s.WARC, "warc", s.WARC, "also write what was fetched as WARC 1.1, in DIR/warc")
}

// filterFlag is the value of --filter: a filter's name, or as in earlier versions the daemon's URL.
type filterFlag struct {
	flags *pflag.FlagSet
	name  *string
}

func (v *filterFlag) String() string {
	if v.name == nil {
		return "" // pflag asks a zero value
	}
	return *v.name
}

// Type implements pflag.Value.
func (v *filterFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (v *filterFlag) Set(text string) error {
	if strings.ContainsAny(text, ":/") {
		return v.flags.Set("server", text)
	}
	*v.name = text
	return nil
}

// usualServer is asked by a crawl that names a filter and no daemon.
const usualServer = "http://127.0.0.1:8000"

// changeable are the flags that may change when a crawl is continued, because they do not change
// which pages belong to it.
var changeable = []string{"max-pages", "threads", "delay", "per-host", "contact", "attempts", "timeout", "allow-private", "login", "graph"}

// change applies the flags to a saved setting; flags that are not changeable must have the saved value.
func change(given *pflag.FlagSet, args []string, s *crawl.Setting) error {
	kept := pflag.NewFlagSet("", pflag.ContinueOnError)
	bind(kept, s)
	var wrong []error
	if len(args) > 0 && !slices.Equal(args, s.Seeds) {
		wrong = append(wrong, fmt.Errorf("seeds %s: the crawl was begun with %s", strings.Join(args, " "), strings.Join(s.Seeds, " ")))
	}
	given.Visit(func(f *pflag.Flag) {
		was := kept.Lookup(f.Name)
		switch {
		case was == nil || was.Value.String() == f.Value.String():
		case slices.Contains(changeable, f.Name):
			wrong = append(wrong, was.Value.Set(f.Value.String()))
		default:
			wrong = append(wrong, fmt.Errorf("--%s %s: the crawl was begun with %q, which stays", f.Name, f.Value, was.Value))
		}
	})
	if err := errors.Join(wrong...); err != nil {
		return command.UsageError{Err: fmt.Errorf("%w\nhint: leave it out; what may change is --%s", err, strings.Join(changeable, ", --"))}
	}
	return nil
}

func (o *options) run(cmd *cobra.Command, args []string) error {
	if format := o.setting.Graph; format != "" && !slices.Contains(graph.Formats(), format) {
		return command.UsageError{Err: fmt.Errorf("--graph %q: want %s", format, strings.Join(graph.Formats(), ", "))}
	}
	if err := o.checkLogin(); err != nil {
		return err
	}
	if given := cmd.Flags(); given.Changed("filter") && !given.Changed("server") && !o.resume {
		o.setting.FilterURL = cmp.Or(os.Getenv("URIFILTER_URL"), usualServer)
	}
	o.setting.Seeds = args
	if !o.resume {
		if err := o.setting.Validate(); err != nil {
			return command.UsageError{Err: err}
		}
	}
	if o.retry && !o.resume {
		return command.UsageError{Err: errors.New("--retry-failed: want --resume, too: a new crawl has no URI that has failed")}
	}
	if o.out == "" {
		if o.resume && len(args) == 0 {
			return command.UsageError{Err: errors.New("--resume: want --out with the folder of the crawl")}
		}
		u, err := uri.Parse(args[0])
		if err != nil {
			return command.UsageError{Err: fmt.Errorf("seed %q: %w", args[0], err)}
		}
		o.out = "crawl-" + strings.NewReplacer(":", "_", "[", "", "]", "").Replace(u.Authority())
	}
	c, log, err := o.open(cmd, args)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // nothing depends on its last lines
	ran := o.watch(cmd, c)
	if err := c.Close(); err != nil {
		return errors.Join(ran, err)
	}
	if ran != nil {
		return o.stopped(ran)
	}
	if p := c.Progress(); p.Stored == 0 {
		return empty(o.out, p)
	}
	if format := c.Setting.Graph; format != "" {
		return export(o.out, format)
	}
	return nil
}

// checkLogin reads the file of --login before a folder is made, and makes its path absolute, so
// that the crawl can be continued from any folder.
func (o *options) checkLogin() (err error) {
	if o.setting.Login == "" {
		return nil
	}
	if o.setting.Login, err = filepath.Abs(o.setting.Login); err != nil {
		return err
	}
	_, err = crawl.ReadLogin(o.setting.Login)
	return err
}

// open begins the crawl, or continues it.
func (o *options) open(cmd *cobra.Command, args []string) (_ *crawl.Crawl, _ io.Closer, err error) {
	token, err := o.token.Read(cmd)
	if err != nil {
		return nil, nil, err
	}
	if o.resume {
		if _, err := os.Stat(o.out); err != nil {
			return nil, nil, &crawl.NoneError{Dir: o.out}
		}
	} else if err := os.MkdirAll(o.out, 0o700); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(filepath.Join(o.out, crawl.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	log := slog.New(slog.NewTextHandler(file, nil))
	env := crawl.Options{Version: command.ReadVersion().Version, Log: log, RetryFailed: o.retry}
	env.Filter = []client.Option{client.WithToken(token), client.WithLogger(log)}
	var c *crawl.Crawl
	if o.resume {
		c, err = crawl.Resume(cmd.Context(), o.out, func(s *crawl.Setting) error { return change(cmd.Flags(), args, s) }, env)
	} else {
		c, err = crawl.Begin(cmd.Context(), o.out, o.setting, env)
	}
	return c, file, err
}

// stopped is the error of a crawl that was interrupted.
func (o *options) stopped(cause error) error {
	var signaled command.Signaled
	if !errors.As(cause, &signaled) && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%w\nhint: what is stored stays; when this is mended, go on with: uridownloader crawl --resume --out %s", cause, quoted(o.out))
	}
	return fmt.Errorf("%w\nhint: go on with: uridownloader crawl --resume --out %s", cause, quoted(o.out))
}

// empty is the error of a crawl that has stored nothing. The same command may be given again, with the
// same folder.
func empty(out string, p crawl.Progress) error {
	what, file := cmp.Or(p.LastFailure, "nothing was found at the seeds"), crawl.LogFile
	if p.Failed > 0 {
		file = crawl.FailedFile
	}
	hint := "what was wrong is in " + filepath.Join(out, file)
	switch {
	case p.LedAway != nil && p.Failed == 0:
		what = p.LedAway.From + " leads to " + p.LedAway.To + ", which is out of the scope"
		hint = "begin there: uridownloader crawl " + quoted(p.LedAway.To) + "; or let the crawl leave the site, with --scope all"
	case p.Reasons["refused_address"] > 0:
		hint = "for a site of this machine or network give the same command with --allow-private"
	case p.Away > 0:
		hint = "the URIs are still in the queue: --resume with --out tries the host again"
	case p.Reasons["robots"] > 0:
		hint = "the owner of the site does not want it to be crawled; --robots=false is for sites of your own"
	}
	return fmt.Errorf("no page was stored: %s\nhint: %s", what, hint)
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// export writes the graph in another form, beside the stored one.
func export(dir, format string) error {
	g, err := graph.Load(dir)
	if err != nil {
		return err
	}
	return disk.FS{}.WriteFile("crawl-graph", filepath.Join(dir, "graph."+format), func(f *disk.File) error {
		return g.Export(f.Writer("crawl-graph-write"), format)
	})
}
