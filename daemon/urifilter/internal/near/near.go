// Package near holds the command near: it sends documents from an input or from files to a filter
// of texts, and prints what each is near to.
package near

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// run is one execution of the command.
type run struct {
	conn            connection.Flags
	typ             string
	distance, limit int
	look, newOnly   bool
	texts, asJSON   bool

	daemon  *client.Client
	options []client.NearOption
	out     *bufio.Writer
	done    int64 // documents with an answer
}

// New makes the command near.
func New() *cobra.Command {
	var r run
	cmd := &cobra.Command{
		Use:   "near [flags] [FILE|-]...",
		Short: "Find documents that are nearly the same as others, and remember them",
		Long: `Say which documents are nearly the same as others, in a filter of the kind simhash,
and remember them. The input has a document a line, as JSON with an id and a text; with
--texts each FILE is a document, whose id is the file's name as it is given.

A line is printed for each document: "new" and its id; or "near", its id, and the ids
of the documents that it is near to, each with the distance before it, the nearest
first. Tabs stand between them. Texts should be without markup. A run that fails may
be repeated as it is: the same documents are new.`,
		Example: `  urifilter filters create pages --kind simhash
  urifilter near --filter pages --texts *.txt
  jq -c '{id: .url, text: .body}' pages.json | urifilter near --filter pages --json
  urifilter near --filter pages --look --distance 1 candidates.ndjson`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.begin(cmd); err != nil {
				return err
			}
			defer r.daemon.Close()
			return cmp.Or(r.all(cmd.Context(), cmd.InOrStdin(), args), r.out.Flush())
		},
	}
	r.conn.Register(cmd)
	f := cmd.Flags()
	r.conn.RegisterFilter(cmd, &r.typ, "", "`name` or id of the filter, of the kind simhash")
	f.IntVar(&r.distance, "distance", -1, "in how many `bits` the fingerprints of near documents may differ, 0 to that of the filter, which is the default")
	f.Lookup("distance").DefValue = "0" // -1 means nothing to people
	f.IntVar(&r.limit, "limit", 10, "how many near documents are listed for each, 1 to 100")
	f.BoolVar(&r.look, "look", false, "look only: nothing is remembered, and documents of the input are not compared with each other")
	f.BoolVar(&r.newOnly, "new", false, "print only the ids of the new ones, one a line")
	f.BoolVar(&r.texts, "texts", false, "each FILE is the text of one document")
	f.BoolVar(&r.asJSON, "json", false, "print JSON, an object a line, with fingerprints")
	cmd.MarkFlagsMutuallyExclusive("new", "json")
	return cmd
}

// begin checks the flags, and makes the client.
func (r *run) begin(cmd *cobra.Command) (err error) {
	if r.typ = connection.Filter(cmd, r.typ); r.typ == "" {
		return command.UsageError{Err: errors.New("--filter: which filter? (urifilter filters create pages --kind simhash makes one)")}
	}
	if cmd.Flags().Changed("distance") {
		r.options = append(r.options, client.NearDistance(r.distance))
	}
	r.options = append(r.options, client.NearLimit(r.limit))
	if r.look {
		r.options = append(r.options, client.NearLook())
	}
	r.out = bufio.NewWriter(cmd.OutOrStdout())
	r.daemon, err = r.conn.Dial(cmd)
	return err
}

// all sends the documents of every input.
func (r *run) all(ctx context.Context, stdin io.Reader, names []string) error {
	if r.texts {
		if len(names) == 0 {
			return command.UsageError{Err: errors.New("--texts: which files? Each of them is a document")}
		}
		return r.send(ctx, newFiles(names, stdin))
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if err := r.input(ctx, stdin, name); err != nil {
			return err
		}
	}
	return nil
}

// input sends the documents of one input, a line each.
func (r *run) input(ctx context.Context, stdin io.Reader, name string) error {
	source := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		source = file
	}
	l := newLines(source, name)
	defer l.close()
	return r.send(ctx, l)
}

// documents is a source of documents; io.EOF ends it.
type documents interface {
	// next waits for a document. where is its place in the input, more says that another is
	// available without a wait.
	next(ctx context.Context) (d client.Document, where string, more bool, err error)
}

const (
	// The daemon answers a call of up to these sizes as a whole.
	batchDocuments = 1000
	batchBytes     = 1 << 20
)

// send sends documents in batches: each has as many as are available without a wait.
func (r *run) send(ctx context.Context, from documents) error {
	var batch []client.Document
	var places []string
	ids, size := map[string]bool{}, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := r.batch(ctx, batch, places)
		batch, places, size = batch[:0], places[:0], 0
		clear(ids)
		return err
	}
	for {
		d, where, more, err := from.next(ctx)
		if err != nil {
			if sent := flush(); sent != nil || errors.Is(err, io.EOF) {
				return sent
			}
			return r.broken(err, false)
		}
		// An id may occur only once in a call.
		if ids[d.ID] || size+len(d.Text) > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, places, size = append(batch, d), append(places, where), size+len(d.Text)+len(d.ID)
		ids[d.ID] = true
		if !more || len(batch) == batchDocuments {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// batch sends one batch, and prints its answers.
func (r *run) batch(ctx context.Context, batch []client.Document, places []string) error {
	found, err := r.daemon.Near(ctx, r.typ, batch, r.options...)
	if err != nil {
		if answer, ok := errors.AsType[*client.Error](err); ok && answer.Index != nil && *answer.Index < len(places) {
			plain := *answer
			plain.Index = nil // it counts from the beginning of the batch
			err = fmt.Errorf("%s: %w", places[*answer.Index], &plain)
		}
		return r.broken(err, client.InDoubt(err) || !errors.As(err, new(*client.Error)))
	}
	r.done += int64(len(found))
	for _, d := range found {
		if err := r.print(d); err != nil {
			return err
		}
	}
	return r.out.Flush()
}

// broken adds to an error what is certain about the run; further documents may be remembered
// if the outcome is unknown.
func (r *run) broken(err error, unknown bool) error {
	switch {
	case r.look || r.done == 0 && !unknown:
		return err // nothing has happened
	case unknown:
		return fmt.Errorf("%w\n%s documents are remembered, and maybe some more%sthe run may be repeated as it is: the same documents are new",
			err, human.Count(r.done), command.HintMark)
	}
	return fmt.Errorf("%w\n%s documents are remembered, and no more%sthe run may be repeated as it is: the same documents are new",
		err, human.Count(r.done), command.HintMark)
}

func (r *run) print(d client.Compared) error {
	switch {
	case r.asJSON:
		text, err := json.Marshal(d)
		if err != nil {
			return err
		}
		_, err = r.out.Write(append(text, '\n'))
		return err
	case r.newOnly && d.New:
		_, err := fmt.Fprintln(r.out, shown(d.ID))
		return err
	case r.newOnly:
		return nil
	}
	word := "near"
	if d.New {
		word = "new"
	}
	fmt.Fprintf(r.out, "%s\t%s", word, shown(d.ID))
	for _, n := range d.Near {
		fmt.Fprintf(r.out, "\t%d %s", n.Distance, shown(n.ID))
	}
	if d.More {
		fmt.Fprint(r.out, "\t...")
	}
	return r.out.WriteByte('\n')
}

// shown is an id on a line: one with control characters is quoted.
func shown(id string) string {
	if bytes.ContainsFunc([]byte(id), func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Sprintf("%q", id)
	}
	return id
}
