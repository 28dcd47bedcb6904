// Package filter holds the commands filter and check: an input is split into batches, a daemon
// judges them one after the other, and new items are printed; and forget, reserve, commit and
// release, which take the same input. A run that breaks off says what is certain. The calls
// themselves are in package client.
package filter

import "github.com/spf13/cobra"

// New makes the command filter.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "filter [flags] [FILE|-]",
		Short: "Print the items that are new, and remember them",
		Long: `Print the items that are new, in their order, and have the daemon remember them.

FILE, or the standard input, holds one item a line (LF or CR LF; empty lines and a
byte order mark at the start are skipped), or with --input-format ndjson one JSON value a
line. What begins as gzip or zstd files do is read as what is in it; UTF-16, other archives and
binary files are refused. A warning tells of text that is hardly a list of items, such as a
table or a sitemap: --as csv:COLUMN (its name, or its number from 1), sitemap, cdx or scrapy takes the items
out of it. Of equal items the first is new. Input of any size passes in
constant memory, in batches of up to 10,000 lines, and each batch is printed before the
next is sent. A summary goes to the standard error, and progress if that is a terminal.

An invalid item (JSON that is not well-formed, null, a line that is too long) ends the run
at its line. With --skip-invalid it is skipped, however long it is; the first 20 of these
are named with their lines on the standard error, and all are counted.

With --summary json the summary is one line of JSON: filter, read, new, duplicates, invalid,
lines, seconds; invalid_items describes the first 20 that were skipped; a run that fails has
its error there, too.

A filter that holds more items than it was made for, and does not grow, calls more new ones
duplicates; a warning at the end of the run says so, and how many in a hundred.

While the daemon restarts, or is too busy, the run waits as long as --patience says.
When it fails, the message says which lines are done and which may have been
remembered though they were not printed; those are not new when asked again. That
the reader of the output leaves early (as head does) is such a failure too; to look
at some items, "urifilter check" remembers nothing. Ctrl-C ends the run after the
batch under way, with exit code 130.`,
		Example: `  urifilter filter --filter uri_generator links.txt > new.txt

  # a compressed file, to a daemon elsewhere
  URIFILTER_TOKEN=... urifilter filter -s https://filter.example.com links.gz

  # in a filter of the kind timing: seen for a day, then new again
  urifilter filter --filter news --expire 24h headlines.txt

  # any JSON values
  echo '{"site": 7, "page": 3}' | urifilter filter --input-format ndjson

  # the column "url" of a table
  urifilter filter --as csv:url pages.csv

  # of a large file with some bad lines: the good ones, and the counts for a script
  urifilter filter -f ndjson --skip-invalid --summary json crawl.ndjson > new.ndjson 2> counts.json`,
	}
	b := &batchCommand{remembers: true}
	b.judge = b.filterBatch
	b.register(cmd)
	return cmd
}
