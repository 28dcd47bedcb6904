// Package form is the command form: it fills in and sends the forms of pages as a file says.
package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

type flags struct {
	allowPrivate bool
	userAgent    string
	print        bool
	check        bool
	asJSON       bool
}

// NewCommand makes the command.
func NewCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "form FILE",
		Short: "Fill in and send forms of pages: log in, change a text, read it back",
		Long: `Fill in and send the forms of pages as a browser does, also of pages in GBK and other encodings,
step by step as a file says:

  cookies: cookies.json          # where they are kept, for the owner's eyes only; left out: nowhere
  steps:
    - page: https://bbs.example/login.php
      form: {name: login}        # or id, action, index (from 1); left out: the only one
      fields: {username: ann, password: {file: password.txt}}    # or {env: BBS_PASSWORD}
      check: {text: Log out}     # or no_text, uri, cookie: whether it worked
    - page: post.php?id=7
      fields: {text: "a new text", sticky: true}
      check: {uri: read.php}

What the file leaves out (hidden fields, tokens) is sent as the page has it. robots.txt is not
asked: each page is one that you name. With one step, its keys can stand at the top. The whole
list is in docs/sessions.md.`,
		Example: `  uridownloader form bbs.yaml
  uridownloader form bbs.yaml --check          # is the file good? calls nobody
  uridownloader form bbs.yaml --print > last-page.html`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) }
	set := cmd.Flags()
	set.BoolVar(&f.allowPrivate, "allow-private", false, "let it call private and loopback addresses, too")
	set.StringVar(&f.userAgent, "user-agent", "", "the `name` that it gives itself (default \"uridownloader\")")
	set.BoolVar(&f.print, "print", false, "print the last page, in UTF-8, and nothing else")
	set.BoolVar(&f.check, "check", false, "only say what is wrong with the file")
	set.BoolVar(&f.asJSON, "json", false, "print JSON, one step a line")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, path string) (err error) {
	if f.print && f.asJSON {
		return command.UsageError{Err: errors.New("--print and --json: want one of them")}
	}
	steps, err := form.Read(path, os.LookupEnv)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.check {
		_, err := fmt.Fprintf(out, "%s: good\n", path)
		return err
	}
	jar, save, err := steps.OpenJar()
	if err != nil {
		return err
	}
	fetcher := fetch.New(fetch.Options{Guard: guard.New(guard.Options{AllowPrivate: f.allowPrivate}), UserAgent: f.userAgent})
	defer fetcher.Close()
	session := form.Session{Fetch: fetcher.Fetch, Jar: jar}
	if !f.print {
		session.Done = func(a form.Answer) { _ = f.tell(out, len(steps.Steps), a) }
	}
	last, err := session.Run(cmd.Context(), steps)
	err = errors.Join(f.hinted(err), save())
	if err == nil && f.print {
		_, err = io.WriteString(out, last.Text)
	}
	return err
}

// hinted adds to an error the flag that would allow what was refused.
func (f *flags) hinted(err error) error {
	var failed *fetch.Error
	if errors.As(err, &failed) && failed.Reason == fetch.RefusedAddress && !f.allowPrivate {
		return fmt.Errorf("%w%s--allow-private allows private and loopback addresses", err, command.HintMark)
	}
	return err
}

// tell reports a step that succeeded.
func (f *flags) tell(w io.Writer, steps int, a form.Answer) error {
	if f.asJSON {
		return json.NewEncoder(w).Encode(map[string]any{"step": a.Step + 1, "sent": a.Sent, "uri": a.URI, "status": a.Status, "encoding": a.Encoding})
	}
	did := "was read"
	if a.Sent != "" {
		did = "a form was sent by " + a.Sent
	}
	_, err := fmt.Fprintf(w, "step %d of %d: %s; %d %s (%s)\n", a.Step+1, steps, did, a.Status, a.URI, a.Encoding)
	return err
}
